package proofs

import "path/filepath"

// Documents are the documents of the repository, as paths under its root.
func Documents(root string) ([]string, error) {
	var out []string
	for _, glob := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "e2e/*/README.md", "charts/*/README.md", "examples/*/README.md", "telemetry/audit/interop/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			out = append(out, rel)
		}
	}
	return out, nil
}
