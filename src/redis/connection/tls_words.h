#pragma once
// Explains to people why a connection failed or was lost. OpenSSL's own messages help few.
#include <string>

#include "base/error.h"
#include "redis/settings.h"

typedef struct x509_store_ctx_st X509_STORE_CTX;

namespace warren::redis {

// From an errno; 0 means that the server closed the connection.
Error lost_connection(int error_number);

// From OpenSSL's error queue: no TLS at all, no common version, or an alert from the server.
Error tls_failure(unsigned long reason, const TlsSettings& settings);
Error certificate_needed(const TlsSettings& settings);
// One side does not accept the other's certificate.
Error not_trusted(std::string what, const TlsSettings& settings);

// What is wrong with the server's certificate, which should be valid for `name`.
std::string certificate_fault(X509_STORE_CTX* store, const std::string& name,
                              const TlsSettings& settings);

}  // namespace warren::redis
