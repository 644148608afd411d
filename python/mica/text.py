"""Texts as numbers."""

from mica._mica import text as _text

TokenFile = _text.TokenFile
Tokenizer = _text.Tokenizer
Vocabulary = _text.Vocabulary
respelled = _text.respelled
write_token_file = _text.write_token_file
