# The operator's image: one static binary and the public certificate authorities (for TLS to datastores and to Cluster
# Control), no shell, no package manager, no root.
#
#   make image
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG LDFLAGS="-s -w" TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "$LDFLAGS" -o /formspec-operator ./cmd/formspec-operator

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /formspec-operator /formspec-operator
USER 65532:65532
ENTRYPOINT ["/formspec-operator"]
