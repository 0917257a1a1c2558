// Package static embeds texts with a table of token vectors in local files, as
// model2vec and tokenlearn distil them: a text's vector is the mean of its
// tokens' vectors. Nothing leaves the machine and an embedding takes
// microseconds.
//
// Two files are read. The tokenizer is a tokenizer.json with a WordPiece,
// Unigram or BPE model (the last two as SentencePiece writes them, with ▁ for
// the space), or a vocab.txt of WordPiece with one token a line. The table is a
// safetensors file with a tensor "embeddings" (or the only one of two
// dimensions) in F32, F16, BF16 or I8, one row for each token; optionally a
// tensor "mapping" with the row of each token, where tokens share rows, and a
// tensor "weights" with a factor for each token.
//
// Of a tokenizer's normaliser only lower case and accents are followed, and
// unknown characters are left out: for a mean of vectors it comes to the same.
//
// The package promises that a file that is cut, hostile or of another format
// is an error: every length is checked before memory is taken for it, and a
// table whose rows do not cover the vocabulary is refused.
package static
