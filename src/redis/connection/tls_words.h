#pragma once
// Why a connection could not be made or was lost, for people: OpenSSL's own words help few.
#include <string>

#include "base/error.h"

typedef struct x509_store_ctx_st X509_STORE_CTX;

namespace warren::redis {

// From an errno; 0 for a connection that the server closed.
Error lost_connection(int error_number);

// From OpenSSL's queue of errors: not TLS at all, no common version, an alert from the server.
Error tls_failure(unsigned long reason, const std::string& cert_file);
Error certificate_needed();

// What is wrong with the server's certificate, of which `name` was expected.
std::string certificate_fault(X509_STORE_CTX* store, const std::string& name,
                              const std::string& ca_file);

}  // namespace warren::redis
