package main

import (
	"fmt"
	"strconv"
	"strings"
)

// places prints the matches of a rule, or for the rule "missed" the rows that were not
// held, and for "held" those that were. show is "RULE,attack|benign|SOURCE,N".
func places(b setting, res []result, show string) error {
	f := strings.Split(show, ",")
	if len(f) != 3 {
		return fmt.Errorf("want RULE,attack|benign|SOURCE,N")
	}
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	var found []int
	for i := range b.rows {
		r := &b.rows[i]
		if f[1] != r.Label && f[1] != r.Source && f[1] != r.Source+"-"+r.Label {
			continue
		}
		held := res[i].source.Verdict.Stops()
		match := f[0] == "missed" && !held || f[0] == "held" && held
		for _, x := range res[i].source.Findings {
			match = match || x.Rule == f[0]
		}
		if match {
			found = append(found, i)
		}
	}
	for k, i := range found {
		if len(found) > n && k%(len(found)/n) != 0 {
			continue
		}
		r := &b.rows[i]
		fmt.Printf("%s %d", r.ID, res[i].source.Score)
		for _, x := range res[i].source.Findings {
			if f[0] == "missed" || f[0] == "held" || x.Rule == f[0] {
				fmt.Printf(" [%s %d %.90q]", x.Rule, x.Score, r.Text[x.Start:x.End])
			}
		}
		if f[0] == "missed" {
			fmt.Printf(" %.220q", r.Text)
		}
		fmt.Println()
	}
	return nil
}
