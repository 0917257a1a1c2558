package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Options say where the files are and how much is read of them.
type Options struct {
	// Tokenizer is the path of a tokenizer.json or of a vocab.txt: a file
	// whose name ends in .txt is a vocabulary.
	Tokenizer string
	// Table is the path of a safetensors file.
	Table string
	// MaxFile bounds each file in bytes; default 512 MiB.
	MaxFile int64
	// Tokens are how many tokens of a text are looked at; default 512.
	Tokens int
}

// The defaults of Options.
const (
	defaultMaxFile = 512 << 20
	defaultTokens  = 512
)

// Embedder embeds with a table in memory. It is safe for concurrent use.
type Embedder struct {
	tokenizer *Tokenizer
	table     *Table
	tokens    int
}

// Open reads both files.
func Open(o Options) (*Embedder, error) {
	if o.MaxFile == 0 {
		o.MaxFile = defaultMaxFile
	}
	if o.Tokens == 0 {
		o.Tokens = defaultTokens
	}
	if o.MaxFile < 0 || o.Tokens < 0 {
		return nil, errors.New("static: a bound is negative")
	}
	raw, err := read(o.Tokenizer, o.MaxFile)
	if err != nil {
		return nil, err
	}
	parse := ParseTokenizer
	if filepath.Ext(o.Tokenizer) == ".txt" {
		parse = ParseVocab
	}
	tokenizer, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Tokenizer, err)
	}
	if raw, err = read(o.Table, o.MaxFile); err != nil {
		return nil, err
	}
	table, err := ParseTable(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Table, err)
	}
	return New(tokenizer, table, o.Tokens)
}

// New puts a tokenizer and its table together.
func New(tokenizer *Tokenizer, table *Table, tokens int) (*Embedder, error) {
	if tokens < 1 {
		return nil, errors.New("static: no tokens are looked at")
	}
	if tokenizer.max >= table.Tokens {
		return nil, fmt.Errorf("static: the table has vectors for %d tokens, the vocabulary goes up to %d", table.Tokens, tokenizer.max)
	}
	return &Embedder{tokenizer, table, tokens}, nil
}

func read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("static: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("static: %w", err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("static: %s is over %d bytes", path, limit)
	}
	return raw, nil
}

// Embed returns the mean of each text's token vectors; a text without a known
// token has a vector of zeros. The error is the context's.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := make([]float32, e.table.Dim)
		ids := e.tokenizer.Tokens(text, e.tokens)
		for _, id := range ids {
			e.table.Add(v, id)
		}
		for k := range v {
			v[k] /= float32(max(1, len(ids)))
		}
		out[i] = v
	}
	return out, nil
}
