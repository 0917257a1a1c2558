// Package static embeds texts with a table of token vectors in local files, as
// model2vec and tokenlearn distil them: a text's vector is the mean of its
// tokens' vectors. Nothing leaves the machine and an embedding takes
// microseconds.
//
// Two files are read. The tokenizer is a tokenizer.json with a WordPiece
// model, or a vocab.txt with one token a line. The table is a safetensors file
// with a tensor "embeddings" (or the only one of two dimensions) of rows in
// F32, F16 or BF16, one row for each token, and optionally a tensor "weights"
// with one factor for each.
//
// The package promises that a file that is cut, hostile or of another format
// is an error: every length is checked before memory is taken for it, and a
// table whose rows do not cover the vocabulary is refused.
package static
