#pragma once
// What both sides of gRPC are told. Nothing here needs gRPC's own headers.
#include <cstddef>
#include <string>

namespace warren::rpc {

// PEM files. None of them: without TLS. With an authority the other side must show a certificate
// that it signed.
struct TlsFiles {
  std::string certificate, key, authority;
  bool any() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
};

inline constexpr std::size_t most_message_bytes = 4u << 20;

}  // namespace warren::rpc
