package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// source is what a release is built from.
type source struct {
	Version, Commit, Go, Builder string
	Roots                        []byte
}

// provenance states from what the files were made, and how: in-toto Statement v1 with
// SLSA provenance v1. It has no times and no invocation: two runs that give the same
// files give the same statement.
func provenance(s source, files []entry) ([]byte, error) {
	var subjects []object
	for _, f := range files {
		subjects = append(subjects, object{"name": f.Name, "digest": object{"sha256": digest(f.Body)}})
	}
	b, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1", "subject": subjects,
		"predicate": object{
			"buildDefinition": object{
				"buildType":          repository + "/blob/main/docs/operations.md#releases",
				"externalParameters": object{"repository": repository, "version": s.Version},
				"internalParameters": object{"command": "make release", "go": s.Go},
				"resolvedDependencies": []object{
					{"uri": "git+" + repository + "@" + s.Commit, "digest": object{"gitCommit": s.Commit}},
					{"name": "ca-certificates.crt", "digest": object{"sha256": digest(s.Roots)}},
				},
			},
			"runDetails": object{"builder": object{"id": s.Builder}},
		},
	}, "", "  ")
	return append(b, '\n'), err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
