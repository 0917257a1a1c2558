package follow

import "github.com/memproxy/memproxy/policy"

// Take passes a release to a follower as if the control plane had sent it under its own
// name.
func Take(f *Follower, r *policy.Release) error { return f.take(r.Name(), r.Encoded()) }

// TakeAs passes a release under another name.
func TakeAs(f *Follower, name string, encoded []byte) error { return f.take(name, encoded) }
