// Package redisstore counts writes in Redis, so that replicas share one limit.
//
// It promises: a charge is one script call, all or nothing over its lines and
// idempotent by its id; every key of a charge lies in one Cluster hash slot;
// and no call outlives its context's deadline.
package redisstore
