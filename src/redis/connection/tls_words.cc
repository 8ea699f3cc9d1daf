#include "redis/connection/tls_words.h"

#include <fmt/ranges.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "redis/causes.h"

namespace warren::redis {

namespace {

// Certificates come from outside, so control characters in them must not reach our logs.
std::string masked(std::string text) {
  for (auto& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text.substr(0, 253);
}

std::string text_of(const GENERAL_NAME& name) {
  if (name.type == GEN_DNS) {
    auto* bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name.d.dNSName));
    return masked(std::string(bytes, std::size_t(ASN1_STRING_length(name.d.dNSName))));
  }
  if (name.type != GEN_IPADD) return "";
  auto* bytes = ASN1_STRING_get0_data(name.d.iPAddress);
  auto size = ASN1_STRING_length(name.d.iPAddress);
  namespace ip = boost::asio::ip;
  if (size == 4)
    return ip::make_address_v4(*reinterpret_cast<const ip::address_v4::bytes_type*>(bytes))
        .to_string();
  if (size == 16)
    return ip::make_address_v6(*reinterpret_cast<const ip::address_v6::bytes_type*>(bytes))
        .to_string();
  return "";
}

// The names that a certificate is valid for, as far as they matter here.
std::string names_in(X509* certificate) {
  std::vector<std::string> texts;
  std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()) && texts.size() < 5; ++i)
    if (auto text = text_of(*sk_GENERAL_NAME_value(names.get(), i)); !text.empty())
      texts.push_back(text);
  char common[256] = "";
  auto* subject = X509_get_subject_name(certificate);
  if (texts.empty() &&
      X509_NAME_get_text_by_NID(subject, NID_commonName, common, sizeof common) > 0)
    texts.push_back(masked(common));
  return texts.empty() ? "nobody" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string day_of(const ASN1_TIME* time) {
  std::tm day{};
  if (!ASN1_TIME_to_tm(time, &day)) return "an unknown day";
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace

Error lost_connection(int error_number) {
  switch (error_number) {
    case 0:
    case EPIPE:
      return {Errc::unavailable, "the server closed the connection"};
    case ECONNRESET:
      return {Errc::unavailable, "the server reset the connection"};
    case ETIMEDOUT:
      return {Errc::unavailable, "the server, or the network to it, stopped answering"};
    default:
      return {Errc::unavailable,
              fmt::format("the connection is lost: {}", std::strerror(error_number))};
  }
}

Error tls_failure(unsigned long reason, const TlsSettings& settings) {
  if (ERR_GET_LIB(reason) == ERR_LIB_SSL) switch (ERR_GET_REASON(reason)) {
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_HTTP_REQUEST:
      case SSL_R_PACKET_LENGTH_TOO_LONG:
        return {Errc::protocol, "this is not a TLS server"};
      case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return certificate_needed(settings);
      case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      case SSL_R_UNSUPPORTED_PROTOCOL:
        return {Errc::protocol, "the server speaks neither TLS 1.2 nor 1.3"};
      case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
      case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return not_trusted(fmt::format("the server does not accept our certificate {}: {}",
                                       settings.cert_file, ERR_reason_error_string(reason)),
                           settings);
      default:
        break;
    }
  auto* text = ERR_reason_error_string(reason);
  return {Errc::protocol, fmt::format("TLS failed: {}", text ? text : "for an unknown reason")};
}

Error certificate_needed(const TlsSettings& settings) {
  std::string what = "the server requires a client certificate";
  if (settings.is_for_redis) what += ": set REDIS_TLS_CERT and REDIS_TLS_KEY";
  return not_trusted(std::move(what), settings);
}

Error not_trusted(std::string what, const TlsSettings& settings) {
  auto cause = settings.is_for_redis ? causes::bad_certificate : Cause();
  return {Errc::denied, cause, "", std::move(what)};
}

std::string certificate_fault(X509_STORE_CTX* store, const std::string& name,
                              const TlsSettings& settings) {
  auto& ca_file = settings.ca_file;
  int reason = X509_STORE_CTX_get_error(store);
  int depth = X509_STORE_CTX_get_error_depth(store);
  auto* certificate = X509_STORE_CTX_get_current_cert(store);
  std::string whose =
      depth == 0 ? "the server's certificate" : "the CA that signed the server's certificate";
  switch (reason) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      if (!settings.is_for_redis) return "the server's certificate is not signed by a CA we trust";
      if (ca_file.empty())
        return "the server's certificate is not signed by a CA we trust: set REDIS_TLS_CA";
      return fmt::format("the server's certificate is not signed by a CA in {} (REDIS_TLS_CA)",
                         ca_file);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} expired on {}", whose, day_of(X509_get0_notAfter(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("{} is valid only from {}: compare the clocks", whose,
                         day_of(X509_get0_notBefore(certificate)));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      if (!settings.is_for_redis)
        return fmt::format("the server's certificate is for {}, not for {}", names_in(certificate),
                           name);
      return fmt::format(
          "the server's certificate is for {}, not for {}: use that name, or map "
          "the address to it with REDIS_TLS_NAMES",
          names_in(certificate), name);
    default:
      return fmt::format("{} is not valid: {}", whose, X509_verify_cert_error_string(reason));
  }
}

}  // namespace warren::redis
