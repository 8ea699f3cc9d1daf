#include "net/kube/kubeconfig.h"

#include <algorithm>
#include <fstream>

#include "base/base64.h"
#include "base/host/folder.h"
#include "base/yaml.h"

namespace warren::kube {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_file = 1u << 20;

struct ConfigFile {
  Yaml root;
  fs::path folder;
};

Result<std::string> read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return fail(Errc::not_found, "{}: there is no such file", path.string());
  std::ifstream file(path, std::ios::binary);
  std::string text(most_file + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open())
    return fail(Errc::invalid, "{}: cannot be read", path.string());
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_file)
    return fail(Errc::invalid, "{}: a kubeconfig has at most 1 MB", path.string());
  return text;
}

std::string text_in(const Yaml* map, std::string_view name) {
  const auto* found = map ? map->find(name) : nullptr;
  return found ? found->text : "";
}

bool is_true(const Yaml* map, std::string_view name) { return text_in(map, name) == "true"; }

std::vector<std::string> list_in(const Yaml* map, std::string_view name) {
  std::vector<std::string> words;
  if (const auto* list = map ? map->find(name) : nullptr)
    for (const auto& item : list->items) words.push_back(item.text);
  return words;
}

// A value that was found, and the folder of its file.
struct Found {
  const Yaml* value = nullptr;
  fs::path folder = {};

  fs::path path(const std::string& name) const {
    return name.empty() ? fs::path() : folder / name;  // an absolute path stays unchanged
  }
};

// clusters: [{name: a, cluster: {…}}]
Found find_named(const std::vector<ConfigFile>& files, const char* list, const char* member,
                 const std::string& name) {
  for (const auto& file : files)
    if (const auto* all = file.root.find(list))
      for (const auto& each : all->items)
        if (text_in(&each, "name") == name) return {each.find(member), file.folder};
  return {};
}

// …-data takes precedence over the file, as in kubectl.
Result<TextSource> source_in(const Found& from, const std::string& name) {
  TextSource source;
  auto data = text_in(from.value, name + "-data");
  if (!data.empty()) {
    auto decoded = from_base64(data);
    if (!decoded) return fail(Errc::invalid, "{}-data: this is no base64", name);
    source.text = *std::move(decoded);
  } else {
    source.file = from.path(text_in(from.value, name));
  }
  return source;
}

Result<PluginTerms> plugin_in(const Yaml& exec, const fs::path& folder) {
  PluginTerms terms;
  terms.api_version = text_in(&exec, "apiVersion");
  if (terms.api_version != "client.authentication.k8s.io/v1" &&
      terms.api_version != "client.authentication.k8s.io/v1beta1")
    return fail(Errc::invalid,
                "exec: apiVersion \"{}\": use client.authentication.k8s.io/v1 or v1beta1",
                terms.api_version);
  auto command = text_in(&exec, "command");
  if (command.empty()) return fail(Errc::invalid, "exec: there is no command");
  // A command with a slash is relative to the file; any other is looked up in $PATH.
  terms.argv = {command.contains('/') ? (folder / command).string() : command};
  for (auto& word : list_in(&exec, "args")) terms.argv.push_back(std::move(word));
  if (const auto* variables = exec.find("env"))
    for (const auto& each : variables->items)
      terms.environment[text_in(&each, "name")] = text_in(&each, "value");
  terms.wants_cluster = is_true(&exec, "provideClusterInfo");
  if (text_in(&exec, "interactiveMode") == "Always")
    return fail(Errc::refused, "exec: interactiveMode Always: nobody is here to be asked");
  return terms;
}

Result<Login> login_in(const Found& user) {
  Login login;
  const auto* value = user.value;
  auto certificate = source_in(user, "client-certificate"), key = source_in(user, "client-key");
  if (!certificate) return std::unexpected(certificate.error());
  if (!key) return std::unexpected(key.error());
  login.certificate = *std::move(certificate);
  login.key = *std::move(key);
  if (login.certificate.is_set() != login.key.is_set())
    return fail(Errc::invalid, "a client-certificate and its client-key come together");
  login.token.file = user.path(text_in(value, "tokenFile"));
  if (login.token.file.empty()) login.token.text = text_in(value, "token");
  login.username = text_in(value, "username");
  login.password = text_in(value, "password");
  login.acts_as = text_in(value, "as");
  login.acts_as_uid = text_in(value, "as-uid");
  login.acts_as_groups = list_in(value, "as-groups");
  if (value && value->find("auth-provider"))
    return fail(Errc::refused, "auth-provider is not supported: use an exec plugin");
  if (const auto* exec = value ? value->find("exec") : nullptr) {
    auto plugin = plugin_in(*exec, user.folder);
    if (!plugin) return std::unexpected(plugin.error());
    login.plugin = *std::move(plugin);
  }
  return login;
}

Result<Access> access_to(const Found& cluster) {
  Access access;
  access.url = text_in(cluster.value, "server");
  auto server = parse_web_url(access.url);
  if (!server) return std::unexpected(server.error());
  access.server = *std::move(server);
  while (access.server.path.ends_with('/')) access.server.path.pop_back();
  auto ca = source_in(cluster, "certificate-authority");
  if (!ca) return std::unexpected(ca.error());
  access.ca = *std::move(ca);
  access.tls_name = text_in(cluster.value, "tls-server-name");
  access.verifies = !is_true(cluster.value, "insecure-skip-tls-verify");
  if (!text_in(cluster.value, "proxy-url").empty())
    return fail(Errc::refused, "proxy-url is not supported: the API server is reached directly");
  return access;
}

Result<Access> access_of(const std::vector<ConfigFile>& files, std::string context) {
  for (const auto& file : files)
    if (context.empty()) context = text_in(&file.root, "current-context");
  if (context.empty()) return fail(Errc::invalid, "there is no current-context: name a context");
  auto chosen = find_named(files, "contexts", "context", context);
  if (!chosen.value) return fail(Errc::invalid, "there is no context \"{}\"", context);
  auto name = text_in(chosen.value, "cluster");
  auto cluster = find_named(files, "clusters", "cluster", name);
  if (!cluster.value) return fail(Errc::invalid, "context {}: no cluster \"{}\"", context, name);
  auto access = access_to(cluster);
  if (!access) return access;
  auto user = text_in(chosen.value, "user");
  auto found = find_named(files, "users", "user", user);
  if (!found.value && !user.empty())
    return fail(Errc::invalid, "context {}: no user \"{}\"", context, user);
  auto login = login_in(found);
  if (!login) return std::unexpected(login.error());
  access->login = *std::move(login);
  access->space = text_in(chosen.value, "namespace");
  if (access->space.empty()) access->space = "default";
  return access;
}

Result<ConfigFile> parse_file(const std::string& text, const fs::path& folder) {
  auto root = parse_yaml(text);
  // The parser's own message may quote the line, and with it a token.
  if (!root) return fail(Errc::invalid, "line {} of a kubeconfig is no YAML", root.error().line);
  return ConfigFile{*std::move(root), folder};
}

std::string variable(const Variables& environment, const std::string& name) {
  auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

Result<Access> parse_kubeconfig(const std::string& text, const fs::path& folder,
                                const std::string& context) {
  auto file = parse_file(text, folder);
  if (!file) return std::unexpected(file.error());
  std::vector<ConfigFile> files;
  files.push_back(*std::move(file));
  return access_of(files, context);
}

Result<Access> load_kubeconfig(const std::string& list, const std::string& context) {
  std::vector<ConfigFile> files;
  for (std::string_view rest = list; !rest.empty();) {
    fs::path path(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), path.native().size() + 1));
    if (path.empty()) continue;
    auto text = read_file(path);
    if (!text && text.error().code == Errc::not_found) continue;
    if (!text) return std::unexpected(text.error());
    auto file = parse_file(*text, fs::absolute(path).parent_path());
    if (!file) return std::unexpected(within(path.string(), file.error()));
    files.push_back(*std::move(file));
  }
  if (files.empty()) return fail(Errc::not_found, "there is no kubeconfig at {}", list);
  auto access = access_of(files, context);
  if (!access) return std::unexpected(within(list, access.error()));
  return access;
}

Result<Access> access_in_cluster(const Variables& environment, const fs::path& folder) {
  auto host = variable(environment, "KUBERNETES_SERVICE_HOST");
  auto port = variable(environment, "KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return fail(Errc::not_found, "this is no pod: KUBERNETES_SERVICE_HOST is not set");
  Access access;
  access.url = fmt::format("https://{}:{}", host.contains(':') ? "[" + host + "]" : host, port);
  auto server = parse_web_url(access.url);
  if (!server) return std::unexpected(server.error());
  access.server = *std::move(server);
  access.ca.file = folder / "ca.crt";
  access.login.token.file = folder / "token";
  auto space = read_file(folder / "namespace");
  if (!space) return std::unexpected(space.error());
  while (!space->empty() && space->back() == '\n') space->pop_back();
  access.space = *std::move(space);
  return access;
}

Result<Access> find_access(const Variables& environment, const std::string& context) {
  auto named = variable(environment, "KUBECONFIG");
  if (!named.empty()) return load_kubeconfig(named, context);
  auto here = access_in_cluster(environment);
  if (here || here.error().code != Errc::not_found) return here;
  return load_kubeconfig(variable(environment, "HOME") + "/.kube/config", context);
}

}  // namespace warren::kube
