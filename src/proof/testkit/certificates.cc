#include "proof/testkit/certificates.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <memory>

#include "proof/testkit/failure.h"

namespace warren::inline testkit {

namespace {

template <auto free>
struct Free {
  void operator()(auto* object) const { free(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using File = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

void need(bool success, const char* step) {
  if (success) return;
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  fail_test(fmt::format("certificates: {}: {}", step, reason));
}

File open_bio(const std::filesystem::path& path, const char* mode) {
  File file(BIO_new_file(path.c_str(), mode));
  need(file != nullptr, path.c_str());
  return file;
}

void extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  need(extension && X509_add_ext(certificate, extension.get(), -1), value.c_str());
}

// The certificate without its signature, which comes last. Without an issuer it issues itself: a
// CA.
Certificate draft(const CertificateTerms& terms, EVP_PKEY* key, X509* issuer) {
  Certificate result(X509_new());
  X509* x = result.get();
  X509_set_version(x, X509_VERSION_3);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(x), terms.starts_in.count());
  X509_gmtime_adj(X509_getm_notAfter(x), terms.ends_in.count());
  auto name = reinterpret_cast<const unsigned char*>(terms.common_name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, name, -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
  need(X509_set_pubkey(x, key) == 1, "public key");
  extend(x, issuer ? issuer : x, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
  extend(x, issuer ? issuer : x, NID_subject_key_identifier, "hash");
  extend(x, issuer ? issuer : x, NID_authority_key_identifier, "keyid");
  if (!issuer) extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
  if (issuer) extend(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  if (!terms.names.empty()) extend(x, issuer, NID_subject_alt_name, terms.names);
  return result;
}

void make(const CertificateTerms& terms, const CertificatePair& made, const CertificatePair* ca) {
  Key key(EVP_EC_gen("P-256")), ca_key;
  Certificate issuer;
  need(key != nullptr, "key");
  if (ca) {
    issuer.reset(
        PEM_read_bio_X509(open_bio(ca->certificate, "r").get(), nullptr, nullptr, nullptr));
    ca_key.reset(PEM_read_bio_PrivateKey(open_bio(ca->key, "r").get(), nullptr, nullptr, nullptr));
    need(issuer && ca_key, "reading the CA");
  }
  Certificate certificate = draft(terms, key.get(), issuer.get());
  need(X509_sign(certificate.get(), ca ? ca_key.get() : key.get(), EVP_sha256()) > 0, "signature");
  need(PEM_write_bio_X509(open_bio(made.certificate, "w").get(), certificate.get()) == 1, "write");
  need(PEM_write_bio_PrivateKey(open_bio(made.key, "w").get(), key.get(), nullptr, nullptr, 0,
                                nullptr, nullptr) == 1,
       "write");
}

}  // namespace

Certificates::Certificates() {
  ca_ = {folder_.path() / "ca.crt", folder_.path() / "ca.key"};
  make({.common_name = "warren test CA"}, ca_, nullptr);
  const std::string here = "DNS:localhost,IP:127.0.0.1";
  server_ = issue({.common_name = "localhost", .names = here});
  client_ = issue({.common_name = "client"});
  expired_ = issue({.common_name = "localhost", .names = here, .starts_in = -48h, .ends_in = -1h});
}

CertificatePair Certificates::issue(const CertificateTerms& terms) {
  auto number = ++count_;
  CertificatePair made{folder_.path() / fmt::format("{}.crt", number),
                       folder_.path() / fmt::format("{}.key", number)};
  make(terms, made, &ca_);
  return made;
}

}  // namespace warren::inline testkit
