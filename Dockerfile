# A static binary on nothing: no shell, no package manager, no user but its own.
#
#   docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) -t memproxy:v0.1.0 .
#
# Pin both images by digest for a build that can be repeated, for instance
#   --build-arg GO_IMAGE=docker.io/library/golang@sha256:…
#   --build-arg BASE_IMAGE=gcr.io/distroless/static-debian12@sha256:…
ARG GO_IMAGE=docker.io/library/golang:1.26
ARG BASE_IMAGE=scratch

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG COMMIT=unknown
ARG TARGETOS=linux
ARG TARGETARCH
# The flags of `make build`: the same source gives the same bytes.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} GOFLAGS= \
    go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/memproxy ./cmd/memproxy && \
    go run ./internal/sbom -binary /out/memproxy -version "${VERSION}" > /out/memproxy.cdx.json

FROM ${BASE_IMAGE}
ARG VERSION=unknown
LABEL org.opencontainers.image.title="memproxy" \
      org.opencontainers.image.source="https://github.com/memproxy/memproxy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# The roots by which https upstreams are trusted.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/memproxy /memproxy
COPY --from=build /out/memproxy.cdx.json /memproxy.cdx.json
# Group 0 as in the chart: it reads Secrets that are not for everybody.
USER 65532:0
ENTRYPOINT ["/memproxy"]
