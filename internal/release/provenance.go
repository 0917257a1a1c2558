package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// statement is in-toto Statement v1 with SLSA provenance v1. It has no times
// and no invocation: two runs that give the same files give the same statement.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	Definition definition `json:"buildDefinition"`
	Run        runDetails `json:"runDetails"`
}

type definition struct {
	BuildType    string            `json:"buildType"`
	External     map[string]string `json:"externalParameters"`
	Internal     map[string]string `json:"internalParameters"`
	Dependencies []resource        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// source is what a release is built from.
type source struct {
	Version, Commit, Go, Builder string
	Roots                        []byte
}

// provenance states from what the files were made, and how.
func provenance(s source, files []entry) ([]byte, error) {
	st := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{
			Definition: definition{
				BuildType: repository + "/blob/main/docs/operations.md#releases",
				External:  map[string]string{"repository": repository, "version": s.Version},
				Internal:  map[string]string{"command": "make release", "go": s.Go},
				Dependencies: []resource{
					{URI: "git+" + repository + "@" + s.Commit, Digest: map[string]string{"gitCommit": s.Commit}},
					{Name: "ca-certificates.crt", Digest: map[string]string{"sha256": digest(s.Roots)}},
				},
			},
			Run: runDetails{builder{s.Builder}},
		},
	}
	for _, f := range files {
		st.Subject = append(st.Subject, resource{Name: f.Name, Digest: map[string]string{"sha256": digest(f.Body)}})
	}
	b, err := json.MarshalIndent(st, "", "  ")
	return append(b, '\n'), err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
