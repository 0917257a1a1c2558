package mem0

// passing says of every row that passes why it may: what touches no memory,
// shows nobody's keys and changes nothing of the installation. A row without
// its reason fails the tests.
var passing = [...]struct{ id, why string }{
	{"mem0.ping", "public: a probe, which clients make when they are set up; the key's own account"},
	{"mem0.v1.stats", "numbers: derived, so all of what they are made of must be the caller's to see"},
	{"mem0.server.root", "public: leads to the documentation"},
	{"mem0.server.docs", "public: documentation"},
	{"mem0.server.redoc", "public: documentation"},
	{"mem0.server.openapi", "public: documentation"},
}
