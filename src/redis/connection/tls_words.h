#pragma once
// Why a connection could not be made or was lost, for people: OpenSSL's own words help few.
#include <string>

#include "base/error.h"
#include "redis/settings.h"

typedef struct x509_store_ctx_st X509_STORE_CTX;

namespace warren::redis {

// From an errno; 0 for a connection that the server closed.
Error lost_connection(int error_number);

// From OpenSSL's queue of errors: not TLS at all, no common version, an alert from the server.
Error tls_failure(unsigned long reason, const TlsSettings& settings);
Error certificate_needed(const TlsSettings& settings);
// One of the two does not accept the certificate of the other.
Error not_trusted(std::string what, const TlsSettings& settings);

// What is wrong with the server's certificate, of which `name` was expected.
std::string certificate_fault(X509_STORE_CTX* store, const std::string& name,
                              const TlsSettings& settings);

}  // namespace warren::redis
