package command

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/memproxy/memproxy/internal/cli"
)

// manual writes a manual page for each command, for who packages memproxy.
func (in *Invocation) manual() *cobra.Command {
	var dir string
	c := cli.Leaf("manual", "write a manual page for each command", "memproxy manual --out man", func(context.Context) int {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return in.fail(err)
		}
		all := in.commandLine()
		all.DisableAutoGenTag = true
		// They are dated today, or by $SOURCE_DATE_EPOCH.
		if err := doc.GenManTree(all, &doc.GenManHeader{Section: "1", Source: "memproxy " + in.Version, Manual: "memproxy"}, dir); err != nil {
			return in.fail(err)
		}
		return cli.OK
	})
	c.Hidden = true
	c.Flags().StringVar(&dir, "out", "", "`directory` for the pages")
	return cli.Needs(c, "out")
}
