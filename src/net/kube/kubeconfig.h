#pragma once
// Where the API server is, and how we log in: from a kubeconfig, or from inside a pod.
//
//   KUBECONFIG=a:b      the first definition of a name wins, and the first current-context
//   ~/.kube/config      otherwise
//   in a pod            KUBERNETES_SERVICE_HOST, and the files that the kubelet mounts and rewrites
//
// For tokens and certificates in separate files, only the path is stored here. The files are read
// each time they are used: see credentials.h.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/http/client.h"

namespace warren::kube {

using Variables = std::map<std::string, std::string>;

// A text, or the file that contains it.
struct TextSource {
  std::string text = {};
  std::filesystem::path file = {};

  bool is_set() const { return !text.empty() || !file.empty(); }
};

// A program that returns a temporary credential.
struct PluginTerms {
  std::string api_version;
  std::vector<std::string> argv;
  Variables environment = {};  // in addition to our own
  bool wants_cluster = false;
};

struct Login {
  TextSource certificate = {}, key = {};
  TextSource token = {};
  std::string username = {}, password = {};
  std::optional<PluginTerms> plugin = {};
  std::string acts_as = {};
  std::vector<std::string> acts_as_groups = {};
  std::string acts_as_uid = {};
};

struct Access {
  HttpUrl server;
  std::string url = {};       // the URL as it was written
  TextSource ca = {};         // if unset, what this system trusts
  std::string tls_name = {};  // expected in the certificate, instead of the host
  bool verifies = true;
  std::string space = {};  // the namespace to work in
  Login login = {};
};

// Parses one text. Relative paths are relative to `folder`. Errc::invalid names the line or the
// member, and never quotes a secret. Errc::refused: it needs an unsupported feature (a proxy, an
// auth-provider).
Result<Access> parse_kubeconfig(const std::string& text, const std::filesystem::path& folder,
                                const std::string& context = "");
// Reads a colon-separated list of files and skips missing ones. Errc::not_found: all are missing.
Result<Access> load_kubeconfig(const std::string& list, const std::string& context = "");
// Errc::not_found: not running in a pod.
Result<Access> access_in_cluster(
    const Variables& environment,
    const std::filesystem::path& folder = "/var/run/secrets/kubernetes.io/serviceaccount");
// Same order as kubectl: the named kubeconfig, then the pod we run in, then the file in the home
// folder.
Result<Access> find_access(const Variables& environment, const std::string& context = "");

}  // namespace warren::kube
