"""What SmolLM2 is asked: a script of user turns, drawn from lists. Decides the mix of the corpus.

tale         one request for a story; what is written is kept as plain prose in half of the cases
lesson       something explained, then asked further
talk         short questions and short answers, many turns
letter       a letter or a note
reading      a few made-up sentences, then questions whose answers lie in them
"""

from dataclasses import dataclass
from random import Random

from recipes.strata_tiny.seed_words import (
    ADVICE,
    COLORS,
    CREATURES,
    EVENTS,
    JOBS,
    NAMES,
    OBJECTS,
    PLACES,
    TOPICS,
    TRAITS,
)

PLAIN = "You are a helpful assistant. You write simple, clear English."
SHORT = (
    "You are a helpful assistant. You answer in one short sentence.",
    "You answer with one short sentence.",
    "Answer briefly, in simple words.",
)
SYSTEMS = (PLAIN, "You are a helpful assistant.", "You are a friendly assistant who uses simple words.")


@dataclass(frozen=True, slots=True)
class Script:
    """`keeps_system`: whether the document shows the system message that it was written under. `is_prose`: only what
    the assistant writes to the first turn is kept, without the form of a chat."""

    kind: str
    system: str
    keeps_system: bool
    is_prose: bool
    turns: tuple[str, ...]


def draw_script(draw: Random) -> Script:
    kind = draw.choices(("tale", "lesson", "talk", "letter", "reading"), (32, 27, 22, 11, 8))[0]
    is_prose = kind in ("tale", "letter", "lesson") and draw.random() < 0.5
    is_short = kind in ("talk", "reading")
    system = draw.choice(SHORT) if is_short else draw.choice(SYSTEMS)
    turns = {"tale": _tale, "lesson": _lesson, "talk": _talk, "letter": _letter, "reading": _reading}[kind](draw)
    return Script(kind, system, draw.random() < (0.6 if is_short else 0.4), is_prose, tuple(turns))


def _hero(draw: Random) -> str:
    if draw.random() < 0.35:
        return f"a {draw.choice(TRAITS)} {draw.choice(CREATURES)}"
    return f"{draw.choice(NAMES)}, a {draw.choice(TRAITS)} {draw.choice(JOBS)},"


def _tale(draw: Random) -> list[str]:
    hero, event, place = _hero(draw), draw.choice(EVENTS), draw.choice(PLACES)
    first = draw.choice(
        (
            f"Write a short story about {hero} who {event} in {place}.",
            f"Tell me a story for children about {hero} who {event}. It happens in {place}. Use simple words.",
            f"Write a story in simple words: {hero} {event} near {place}, and there is a "
            f"{draw.choice(COLORS)} {draw.choice(OBJECTS)} in it.",
            f"Write a tale that begins in {place}, where {hero} {event}.",
            f"Write a short story with a happy ending about {hero} and a {draw.choice(CREATURES)} in {place}.",
        )
    )
    then = (
        "What happens next?",
        "Can you give the story a title?",
        "What can we learn from this story?",
        f"Now tell me another story, about {_hero(draw)} who {draw.choice(EVENTS)}.",
        "Tell the story again in three sentences.",
        f"How does the {draw.choice(CREATURES)} feel about it?",
    )
    return [first, *draw.sample(then, 3)]


def _question(draw: Random) -> str:
    topic = draw.choice(TOPICS)
    return draw.choice(
        (
            f"Explain {topic} in simple words.",
            f"Tell me about {topic}.",
            f"Why is it useful to know about {topic}?",
            f"What should a child know about {topic}?",
            f"Write a short paragraph about {topic}.",
            f"Tell me three facts about {topic}.",
            f"What is interesting about {topic}?",
            f"How would you describe {topic} to somebody who has never heard of it?",
            f"How do I {draw.choice(ADVICE)}?",
            f"Give me some tips to {draw.choice(ADVICE)}.",
            f"What is the difference between {topic} and {draw.choice(TOPICS)}?",
        )
    )


FURTHER = (
    "Can you give me an example?",
    "Why is that?",
    "Can you say that in one sentence?",
    "I do not understand. Can you explain it again?",
    "Thank you! What else should I know?",
    "Is that always true?",
    "How do people use this every day?",
    "What is the most important thing to remember?",
    "How was this in the past?",
    "That is interesting. Tell me more.",
)


def _lesson(draw: Random) -> list[str]:
    turns = [_question(draw)]
    while len(turns) < 4:
        turns.append(draw.choice(FURTHER) if draw.random() < 0.6 else _question(draw))
    return turns


def _talk(draw: Random) -> list[str]:
    opening = ("Hello!", "Hi, how are you?", "Good morning!", "Hello, can you help me?", "Hi! What can you do?")
    turns = [draw.choice(opening)] if draw.random() < 0.3 else []
    while len(turns) < 9:
        topic, name = draw.choice(TOPICS), draw.choice(NAMES)
        turns.append(
            draw.choice(
                (
                    f"What is the use of {topic}?",
                    f"Do you like {topic}?",
                    f"Where do we find {topic}?",
                    f"What color is a {draw.choice(OBJECTS)}?",
                    f"What does a {draw.choice(JOBS)} do?",
                    f"Where does a {draw.choice(CREATURES)} live?",
                    f"What does a {draw.choice(CREATURES)} eat?",
                    f"My name is {name}. What is my name?",
                    f"I live in {draw.choice(PLACES)}. What can I do there?",
                    f"I lost my {draw.choice(OBJECTS)}. What should I do?",
                    f"What can I give my friend {name} for a birthday?",
                    f"Today I feel {draw.choice(TRAITS)}. What should I do?",
                    f"How do I {draw.choice(ADVICE)}?",
                    "What is a good name for a dog?",
                    "What should I eat for breakfast?",
                    "Thank you! That helps.",
                    f"Say something kind to {name}.",
                )
            )
        )
    return turns


def _letter(draw: Random) -> list[str]:
    sender, reader = draw.sample(NAMES, 2)
    place, event = draw.choice(PLACES), draw.choice(EVENTS)
    first = draw.choice(
        (
            f"Write a short letter from {sender} to {reader} about a week in {place}.",
            f"Write a letter in which {sender} thanks {reader} for a {draw.choice(COLORS)} {draw.choice(OBJECTS)}.",
            f"{sender} {event}. Write the letter that {sender} sends home to {reader}.",
            f"Write a page of the diary of {sender}, a {draw.choice(JOBS)} in {place}.",
            f"Write a note from {sender} to {reader}, who is ill.",
            f"Write an invitation from {sender} to {reader} to a party in {place}.",
        )
    )
    return [
        first,
        f"Now write the answer of {reader}.",
        "Make it shorter.",
        f"Write it again for {draw.choice(NAMES)}.",
    ]


def _reading(draw: Random) -> list[str]:
    name, other = draw.sample(NAMES, 2)
    place, color, thing = draw.choice(PLACES), draw.choice(COLORS), draw.choice(OBJECTS)
    job, creature, day = draw.choice(JOBS), draw.choice(CREATURES), draw.choice(DAYS)
    facts = [
        f"On {day} {name} went to {place}.",
        f"{name} carried a {color} {thing}.",
        f"There was {_with_article(creature)} that followed {name} all the way.",
        f"In the evening {name} met {other}, a {job}.",
    ]
    asked = [
        f"Where did {name} go on {day}?",
        f"What did {name} carry?",
        f"Which color was the {thing}?",
        f"Who followed {name}?",
        f"Whom did {name} meet in the evening?",
        f"What is the work of {other}?",
        "Tell me the story in your own words.",
        f"When did {name} go there?",
    ]
    questions = draw.sample(asked, 6)
    opening = draw.choice(("Read this, then answer the question.", "Here is a short text.", "Please read this."))
    return [f"{opening}\n\n{' '.join(facts)}\n\nQuestion: {questions[0]}", *questions[1:]]


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def scripts_of(seed: int, rows: int) -> list[Script]:
    """What a batch of the writer is asked."""
    draw = Random(seed)
    return [draw_script(draw) for _ in range(rows)]
