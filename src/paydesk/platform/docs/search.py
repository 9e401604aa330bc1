"""The search over operations, webhooks, guides, errors and settings: words of titles count most, rare words more."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RESULTS_MAX = 20
WORDS_MAX = 8
IN_TITLE, IN_NAMES, IN_TEXT = 6.0, 3.0, 1.0
"""The weights of a word by where it is."""
OF_BEGINNING = 0.5
"""The weight of a word that only begins with what was typed."""
OF_PHRASE = 1.5
"""The weight of an entry whose title has all that was typed, as it was typed."""
OF_TITLE = 2.0
"""The weight of a page whose title is what was typed, and nothing else."""
SNIPPET_CHARACTERS = 160
_WORD = re.compile(r"[a-z0-9]+")
_STOP_WORDS = frozenset(
    ("a", "an", "and", "are", "at", "by", "do", "for", "how", "i", "in", "is", "of", "on", "or", "the", "to", "with")
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a search can find. `weight` raises what most readers look for."""

    kind: str
    title: str
    url: str
    names: str = ""
    """Paths, codes and other names."""
    text: str = ""
    weight: float = 1.0

    def snippet(self, words: Iterable[str]) -> str:
        """Return the part of the text around the first of the words."""
        text = " ".join(self.text.replace("`", "").replace("**", "").split())
        found = (match.start() for word in words if (match := re.search(rf"\b{word}", text, re.IGNORECASE)))
        start = max(min(found, default=0) - SNIPPET_CHARACTERS // 3, 0)
        start = text.find(" ", start) + 1 if start else 0
        part = text[start : start + SNIPPET_CHARACTERS]
        end = len(text) > start + SNIPPET_CHARACTERS
        return ("… " if start else "") + (part.rpartition(" ")[0] + " …" if end else part)


class Index:
    """The entries by their words."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._weights: dict[str, dict[int, float]] = defaultdict(dict)
        for number, entry in enumerate(entries):
            for text, weight in ((entry.title, IN_TITLE), (entry.names, IN_NAMES), (entry.text, IN_TEXT)):
                words = words_of(text)
                for word, count in Counter(words).items():
                    # A title of few words is about each of them; a long text says a word often by chance.
                    share = count / math.sqrt(len(words)) if weight != IN_TEXT else math.log2(1 + min(count, 15)) / 2
                    of_word = self._weights[word]
                    of_word[number] = of_word.get(number, 0.0) + weight * share
        self._words = sorted(self._weights)

    def find(self, query: str) -> list[tuple[Entry, str]]:
        """Return the best entries with the part of their text that fits; those with more of the words come first."""
        words = words_of(query)[:WORDS_MAX]
        scores, matched = defaultdict[int, float](float), Counter[int]()
        for word in words:
            for number, score in self._scores(word).items():
                scores[number] += math.log1p(score)
                matched[number] += 1
        phrase = " ".join(words)
        for number in scores:
            entry = self._entries[number]
            title = " ".join(words_of(entry.title))
            scores[number] *= entry.weight * (OF_PHRASE if phrase in title else 1)
            if phrase == title and "#" not in entry.url:
                scores[number] *= OF_TITLE
        best = sorted(scores, key=lambda one: (-matched[one], -scores[one], one))
        return [(self._entries[one], self._entries[one].snippet(words)) for one in best[:RESULTS_MAX]]

    def _scores(self, word: str) -> dict[int, float]:
        """Return the score of each entry that has the word or, less, one that begins with it."""
        best: dict[int, float] = {}
        for known in itertools.islice(self._words, bisect.bisect_left(self._words, word), None):
            if not known.startswith(word):
                break
            entries = self._weights[known]
            rarity = math.log(1 + len(self._entries) / len(entries))
            rarity *= 1 if known == word else OF_BEGINNING * len(word) / len(known)
            for number, weight in entries.items():
                best[number] = max(best.get(number, 0.0), weight * rarity)
        return best


def words_of(text: str) -> list[str]:
    """Return the words of a text, without those that say nothing and without the ends of plurals."""
    words = _WORD.findall(text.lower())
    kept = [word for word in words if word not in _STOP_WORDS] or words
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in kept]
