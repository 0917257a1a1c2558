// Package contract generates the matrix of requests that tries every route of
// an adapter's table against the memory of others.
//
// It promises that nothing is written by hand that the table already says: a
// route, a path parameter or a payload without an entry here is an error, so
// that a new row cannot be forgotten. A case is one route, one place in which
// an id or a name can stand (path, query, header, body), one class of what
// stands there (the caller's own, a neighbour's in the same tenant, another
// tenant's, an unknown one, a wildcard), and one caller. Every object of a
// victim carries a canary in every member, so that a leak is found whatever
// member it leaks through.
package contract
