#pragma once

// Texts as numbers: vocabularies, tokenizers, files of tokens.
#include "mica/text/respell.h"
#include "mica/text/token_file.h"
#include "mica/text/tokenizer.h"
#include "mica/text/vocabulary.h"
