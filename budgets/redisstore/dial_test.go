package redisstore_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/budgets/redisstore"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// A URL that cannot be used is refused, also by New, and the error does not quote it.
func TestCheckURL(t *testing.T) {
	for _, c := range []struct{ name, url, fault string }{
		{name: "no scheme", url: "cache:6379", fault: "needs a scheme"},
		{name: "empty", url: "", fault: "needs a scheme"},
		{name: "another scheme", url: "http://cache", fault: "cannot be read"},
		{name: "an unknown setting", url: "redis://cache?frobnicate=1", fault: "cannot be read"},
		{name: "an empty host", url: "redis://a,,b", fault: "empty host"},
		{name: "a Cluster with a database", url: "redis://a,b/3", fault: "database 0"},
		{name: "a Cluster with a master", url: "redis://a?cluster=true&master=x", fault: "neither"},
		{name: "a unix Cluster", url: "unix:///s?cluster=true", fault: "neither"},
		{name: "a unix sentinel", url: "unix:///s?master=x", fault: "by host and port"},
		{name: "perhaps a Cluster", url: "redis://a?cluster=maybe", fault: "true or false"},
		{name: "a broken query", url: "redis://a?x=%zz", fault: "cannot be read"},
		{name: "a port out of range", url: "redis://:secret@a:99999/0", fault: "cannot be read"},
		{name: "a port of the second host out of range", url: "redis://:secret@a:1,b:65536", fault: "cannot be read"},
		{name: "a broken port", url: "redis://:secret@a:port:1", fault: "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, err := range []error{redisstore.CheckURL(c.url), expect.Err(redisstore.New(redisstore.Options{URL: c.url}))} {
				must.ErrorHas(t, err, c.fault)
				expect.Text(t, err.Error(), "the error quotes the password", err).Lacks("secret")
			}
		})
	}
	for _, url := range []string{
		"redis://cache",
		"redis://user:p%40ss@cache:7000/3?pool_size=7",
		"rediss://cache",
		"redis://[::1]:7000,[::2]",
		"redis://a:1,b,c:3",
		"redis://a:1?cluster=true",
		"redis://a:1?cluster=false",
		"redis://:pw@a:1,b:2/4?master=main",
		"redis://a:1?master=main",
		"unix:///run/redis.sock?db=2",
	} {
		expect.OK(t, redisstore.CheckURL(url), url)
		must.Do(t, must.Get(redisstore.New(redisstore.Options{URL: url}))(t).Close())
	}
}

func TestPrefixHasNoBraces(t *testing.T) {
	expect.Error(t, expect.Err(redisstore.New(redisstore.Options{URL: "redis://h", Prefix: "a{b"})), "a prefix that would become the hash tag was taken")
}

// FuzzParse: no URL panics, also when a client is made of it, and no error quotes a password.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"redis://h", "redis://u:hunter2@h:1,g/0?master=m&cluster=false", "unix://u:hunter2@/s?db=1", "rediss://[::1", "redis://:hunter2@:::/x", "://", "redis://h?%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := redisstore.New(redisstore.Options{URL: raw})
		if err != nil {
			if strings.Contains(raw, "hunter2") && strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		must.Do(t, s.Close())
	})
}
