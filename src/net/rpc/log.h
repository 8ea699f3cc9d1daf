#pragma once
// Messages of gRPC and protobuf become events of our log. By default both write to standard error and
// quote what a peer sent as it came, so that a newline in a header value would begin a forged line.
//
//   warn grpc.said severity=error at=hpack_parser.cc:1262 what="Error parsing metadata: …"
//
// `what` is cut to 256 bytes. After ten lines in one second further ones are only counted, in
// grpc.said_more.
namespace warren::rpc {

// Only the first call has an effect. Server::listen and connect call it.
void take_over_logs();

}  // namespace warren::rpc
