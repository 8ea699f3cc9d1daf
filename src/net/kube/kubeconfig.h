#pragma once
// Where the API server is, and who we are to it: from a kubeconfig, or from inside a pod.
//
//   KUBECONFIG=a:b      the first definition of a name wins, and the first current-context
//   ~/.kube/config      otherwise
//   in a pod            KUBERNETES_SERVICE_HOST, and the files that the kubelet mounts and rewrites
//
// What stands in files of its own (tokens, certificates) is named here and read when it is used, again
// and again: see credentials.h.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/http/client.h"

namespace warren::kube {

using Variables = std::map<std::string, std::string>;

// A text, or the file that has it now.
struct TextSource {
  std::string text = {};
  std::filesystem::path file = {};

  bool is_set() const { return !text.empty() || !file.empty(); }
};

// A program that knows a credential, for a time.
struct PluginTerms {
  std::string api_version;
  std::vector<std::string> argv;
  Variables environment = {};  // beside our own
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
  std::string url = {};       // the same, as it was written
  TextSource ca = {};         // not set: whom this system trusts
  std::string tls_name = {};  // expected in the certificate, instead of the host
  bool verifies = true;
  std::string space = {};  // the namespace to work in
  Login login = {};
};

// One text. Relative files are relative to `folder`. Errc::invalid names the line or the member, and
// repeats no secret. Errc::refused: it asks for what is not supported (a proxy, an auth-provider).
Result<Access> parse_kubeconfig(const std::string& text, const std::filesystem::path& folder,
                                const std::string& context = "");
// Of a list with colons; those that do not exist are left out. Errc::not_found: none does.
Result<Access> load_kubeconfig(const std::string& list, const std::string& context = "");
// Errc::not_found: this is no pod.
Result<Access> access_in_cluster(
    const Variables& environment,
    const std::filesystem::path& folder = "/var/run/secrets/kubernetes.io/serviceaccount");
// As kubectl does: a kubeconfig that is named, then the pod we are in, then the file in the home folder.
Result<Access> find_access(const Variables& environment, const std::string& context = "");

}  // namespace warren::kube
