"""A file that two servers replace at once is one of the two, whole."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strata.output_file import replace_file


def test_of_two_writers_at_once_each_leaves_a_whole_file(tmp_path: Path) -> None:
    path, texts = tmp_path / "file", ("{" + "a" * 4000 + "}", "{" + "b" * 9000 + "}")

    def write(text: str) -> None:
        for _ in range(100):
            replace_file(path, text)
            assert path.read_text(encoding="utf-8") in texts

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, texts))
    assert list(tmp_path.iterdir()) == [path]
