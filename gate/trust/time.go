package trust

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
)

// clockSkew is how far a client's clock may be from memproxy's: a timestamp within it
// says when the request was made.
const clockSkew = 5 * time.Minute

// Backdating returns the client's timestamps that give a memory another age than it has:
// all but those that name the time at which the request arrived.
func Backdating(claims []memproxy.ClientTime, arrived time.Time) []memproxy.ClientTime {
	return slices.DeleteFunc(claims, func(c memproxy.ClientTime) bool {
		if n, err := strconv.ParseFloat(c.Raw, 64); err == nil {
			return math.Abs(n-float64(arrived.Unix())) <= clockSkew.Seconds()
		}
		var text string
		return json.Unmarshal([]byte(c.Raw), &text) == nil &&
			slices.ContainsFunc([]string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime}, func(layout string) bool {
				at, err := time.Parse(layout, text)
				return err == nil && at.Sub(arrived).Abs() <= clockSkew
			})
	})
}
