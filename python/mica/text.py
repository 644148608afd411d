"""Texts as numbers."""

from mica._mica import text as _text

Vocabulary = _text.Vocabulary
