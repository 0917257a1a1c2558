package memproxy

// CallerPrefix begins the record of all that one caller was refused, in
// whatever sessions or in none, which locks by itself. A caller that names a
// session with it names none.
const CallerPrefix = "caller:"

// CallerSession is the record of a principal's rejections in all sessions.
func CallerSession(principal string) string { return CallerPrefix + principal }
