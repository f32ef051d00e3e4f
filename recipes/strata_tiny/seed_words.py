"""The words that seed prompts are put together from. Plain nouns and names, so that what is written stays simple."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace("\n", " ").split(","))


NAMES = _words("""
Anna, Ben, Clara, David, Emma, Felix, Grace, Henry, Ida, Jack, Kate, Leo, Mia, Noah, Olivia, Peter, Rosa, Sam, Tom,
Lucy, Max, Nina, Oscar, Paul, Ruth, Simon, Tina, Victor, Wendy, Marie, Alice, Hugo, Ella, Martin, Sara, Daniel, Eva,
Jonas, Lily, Marco, Nora, Adam, Julia, Karl, Laura, Mary, Nick, Pia, Robert, Sophie, Thomas, Vera, Walter, Zoe, Amir,
Chen, Diego, Fatima, Ivan, Kofi, Leila, Mei, Priya, Yuki
""")

JOBS = _words("""
farmer, baker, teacher, sailor, doctor, nurse, gardener, carpenter, shepherd, fisherman, painter, musician, postman,
tailor, cook, librarian, mechanic, pilot, miller, clockmaker, student, grandmother, grandfather, young girl, little boy,
shopkeeper, bus driver, beekeeper, firefighter, engineer, singer, potter, vet, night watchman, king, queen, knight,
scientist, writer, dancer, blacksmith, lighthouse keeper, train driver, street sweeper
""")

CREATURES = _words("""
fox, bear, rabbit, owl, hedgehog, wolf, mouse, cat, dog, horse, cow, goat, duck, swan, crow, squirrel, frog, turtle,
bee, ant, butterfly, whale, dolphin, seal, penguin, elephant, lion, monkey, parrot, snail, deer, donkey, goose, robin
""")

TRAITS = _words("""
brave, shy, curious, kind, lazy, clever, proud, lonely, cheerful, grumpy, patient, forgetful, honest, greedy, quiet,
careful, restless, gentle, stubborn, tired, hungry, generous, clumsy, hopeful
""")

PLACES = _words("""
a small village, a big city, the mountains, a forest, an island, a harbor, a farm, a school, a library, a train station,
an old castle, a lighthouse, a market, a river valley, a desert, a snowy town, a hospital, a bakery, a museum, a garden,
a beach, a bridge, a lake, a cave, a ship, a kitchen, an attic, a mill, a field of flowers, a railway carriage, a zoo,
a theater, a park, a swamp, a mountain hut, a busy street, a quiet house by the sea, an orchard, a workshop
""")

EVENTS = _words("""
finds a lost key, loses a red scarf, helps a stranger, gets lost in the fog, learns to swim, plants a tree, builds a
boat, hears a strange sound at night, makes a new friend, breaks a window, bakes a cake for the first time, misses the
last train, finds an old map, saves a bird, tells a lie, keeps a promise, meets an old friend, hides from the rain, wins
a race, loses a race, cannot sleep, finds a letter in a bottle, repairs a clock, shares the last bread, is afraid of the
dark, waits for the snow, gets a strange present, forgets a birthday, sees the sea for the first time, follows a cat,
finds a hidden door, grows a giant pumpkin, learns to say sorry, moves to a new town, looks for a lost dog, climbs a
hill to see the stars, sells an old bicycle, paints a wall, catches a big fish, rides a horse
""")

OBJECTS = _words("""
apple, bread, lamp, hat, book, bicycle, umbrella, kite, drum, ladder, basket, candle, mirror, coat, boat, letter, ring,
clock, chair, kettle, blanket, ball, violin, map, rope, spoon, teapot, ticket, pencil, key, bucket, cake, cheese, jar of
honey, pair of boots, bag of rice, box of matches, pot of soup, bunch of flowers, wooden horse
""")

COLORS = _words("red, blue, green, yellow, white, black, brown, gray, orange, purple, pink, golden, silver")

TOPICS = _words("""
rain, snow, the wind, clouds, thunder, rainbows, the moon, the sun, the stars, the tides, rivers, volcanoes,
earthquakes, mountains, deserts, glaciers, oceans, forests, seeds, trees, leaves, flowers, roots, bees, honey,
butterflies, spiders, birds, feathers, eggs, fish, whales, sharks, frogs, snakes, cats, dogs, horses, cows, sheep, milk,
cheese, butter, bread, yeast, salt, sugar, rice, potatoes, apples, tea, coffee, chocolate, soup, cooking, the heart,
blood, bones, muscles, the brain, sleep, dreams, teeth, eyes, ears, skin, breathing, the stomach, fever, vaccines,
medicine, exercise, memory, learning, reading, writing, paper, ink, books, libraries, schools, maps, compasses, clocks,
calendars, money, banks, prices, markets, trade, ships, boats, trains, bicycles, cars, airplanes, bridges, roads,
tunnels, houses, bricks, glass, steel, iron, gold, wood, plastic, cotton, wool, soap, fire, candles, lamps, electricity,
batteries, magnets, motors, computers, telephones, radios, television, the internet, cameras, mirrors, lenses,
telescopes, microscopes, sound, music, pianos, violins, drums, singing, dancing, painting, colors, light, shadows, heat,
ice, steam, water, air, gravity, speed, friction, numbers, zero, fractions, triangles, circles, averages, chance,
counting, measuring, weight, time, seasons, spring, summer, autumn, winter, day and night, weather forecasts, farming,
soil, compost, rain forests, recycling, kindness, friendship, honesty, courage, patience, fairness, laws, voting,
cities, villages, families, holidays, birthdays, games, chess, football, swimming, running, camping, fishing, gardening,
knitting, the post, newspapers, stories, poems, jokes, languages, the alphabet, dictionaries, museums, castles, kings
and queens, ancient Egypt, ancient Rome, the Vikings, dinosaurs, fossils, caves, islands, deserts at night, elephants,
penguins, owls, ants, worms, mushrooms, moss, grass, hay, pumpkins, oranges, nuts, spices, ovens, refrigerators, kites,
balloons, rockets, satellites, planets, comets
""")

ADVICE = _words("""
sleep better, learn a new language, make a friend, save money, bake bread, grow tomatoes, take care of a cat, take care
of a dog, write a letter, read more books, cook rice, make a good soup, fix a flat tire, clean a kitchen, pack for a
trip, stay calm before a test, be a good listener, get up early, drink more water, remember names, draw a tree, plant a
small garden, make a bird house, keep a diary, speak in front of a class, plan a birthday party, help a sad friend, say
sorry, share a room, do homework on time, learn to swim, ride a bicycle safely, walk in the mountains, stay warm in
winter, stay cool in summer, tell a good story, make tea, make a paper boat, choose a present, tidy a room
""")
