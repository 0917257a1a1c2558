// Package redisstore counts writes in Redis, so that replicas share limits.
//
// A charge is one script call, all or nothing over its lines and idempotent by id. All
// keys of a charge are in one Cluster hash slot. No call outlives its context's
// deadline.
package redisstore
