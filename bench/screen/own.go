package main

type ownText struct {
	text   string
	poison bool
}

var own []ownText
