// Package mem0 translates the Mem0 wire formats: the v1, v2 and v3 routes of the hosted
// platform, and the self-hosted server's. The routes of OpenMemory and of the MCP endpoints
// are only classified, and refused.
//
// Guarantees: every route of the formats is in one table (routes.txt); every place of a
// payload that can hold content, an identity, a confidence or a time is in the Operation;
// ambiguous payloads are refused; a patched payload differs from the client's in the
// patched bytes only.
//
// Sources: the platform's OpenAPI document and the published clients (npm mem0ai
// 2.4 and 3.3, PyPI mem0ai 1.0 and 2.x), and the self-hosted server.
package mem0
