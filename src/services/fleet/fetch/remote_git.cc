#include "services/fleet/fetch/remote_git.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/host/git.h"
#include "services/fleet/fetch/trouble.h"

namespace warren::fleet {

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr const char* credential_helper =
    "!answer() { test \"$1\" = get && cat /proc/self/fd/3; }; answer";
constexpr const char* local_upload_pack = "git -c safe.directory=* upload-pack";
constexpr const char* inherited_folder = "/proc/self/fd/3";

// A descriptor of ours, closed with it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

struct End {
  int code = 0;
  std::string output, errors;
};

// Above every other, in the way that git has for programs.
void set(std::vector<std::string>& environment, const Settings& settings) {
  environment.push_back(fmt::format("GIT_CONFIG_COUNT={}", settings.size()));
  for (std::size_t i = 0; i < settings.size(); ++i) {
    environment.push_back(fmt::format("GIT_CONFIG_KEY_{}={}", i, settings[i].first));
    environment.push_back(fmt::format("GIT_CONFIG_VALUE_{}={}", i, settings[i].second));
  }
}

std::string own_variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return fmt::format("{}={}", name, value ? value : otherwise);
}

std::vector<std::string> environment(std::string_view protocol,
                                     const std::filesystem::path& repository) {
  return {own_variable("PATH", "/usr/local/bin:/usr/bin:/bin"), "LC_ALL=C", "HOME=/nonexistent",
          // Named, it is not looked for: /dev/null is none.
          "GIT_DIR=" + (repository.empty() ? "/dev/null" : repository.string()),
          "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
          "GIT_TERMINAL_PROMPT=0",
          "GIT_ASKPASS=",  // empty: no program of any setting is asked
          "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
          fmt::format("GIT_ALLOW_PROTOCOL={}", protocol)};
}

Settings common_settings() {
  return {{"safe.directory", "*"},
          {"core.hooksPath", "/dev/null"},
          {"core.fsmonitor", "false"},
          {"submodule.recurse", "false"},
          {"gc.auto", "0"},
          {"maintenance.auto", "false"},
          // A slot is one core, and memory that does not grow with the repository.
          {"pack.threads", "1"},
          {"pack.windowMemory", "256m"},
          {"core.packedGitWindowSize", "32m"},
          {"core.packedGitLimit", "256m"},
          {"core.bigFileThreshold", "32m"}};
}

Settings remote_settings(const RemoteSettings& settings, const RemoteRequest& request) {
  auto all = common_settings();
  Settings more{{"protocol.version", "2"},
                {"fetch.unpackLimit", "1"},  // a pack stays one file
                {"fetch.recurseSubmodules", "false"},
                {"fetch.writeCommitGraph", "false"},
                {"fetch.fsckObjects", "true"},
                {"transfer.fsckObjects", "true"},
                {"transfer.bundleURI", "false"},
                // Mistakes of old programs that harm nobody and that many repositories have.
                {"fetch.fsck.zeroPaddedFilemode", "warn"},
                {"fetch.fsck.badTimezone", "warn"},
                {"fetch.fsck.missingSpaceBeforeDate", "warn"},
                {"fetch.fsck.missingNameBeforeEmail", "warn"},
                {"fetch.fsck.missingSpaceBeforeEmail", "warn"},
                {"http.followRedirects", "false"},
                {"http.sslVerify", "true"},
                {"http.proxy", settings.proxy},
                {"credential.helper", ""}};
  all.insert(all.end(), more.begin(), more.end());
  if (!settings.certificates.empty()) all.emplace_back("http.sslCAInfo", settings.certificates);
  if (request.credential)
    all.emplace_back(
        fmt::format("credential.{}://{}.helper", name(request.url.transport()), request.url.host()),
        credential_helper);
  return all;
}

std::string shell_quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string ssh_command(const SshSettings& settings) {
  auto none_or = [](const std::filesystem::path& path) {
    return path.empty() ? std::string("none") : shell_quoted(path);
  };
  std::string command = fmt::format(
      "ssh -F {} -o BatchMode=yes -o StrictHostKeyChecking={} -o ConnectTimeout=30 "
      "-o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o ForwardAgent=no -o ForwardX11=no "
      "-o PermitLocalCommand=no -o ControlMaster=no -o ControlPath=none",
      none_or(settings.config), settings.accepts_new_hosts ? "accept-new" : "yes");
  if (!settings.identity.empty())
    command += fmt::format(" -o IdentitiesOnly=yes -i {}", shell_quoted(settings.identity));
  if (!settings.known_hosts.empty())
    command += " -o UserKnownHostsFile=" + shell_quoted(settings.known_hosts);
  return command;
}

// Limits that hold from before git's first instruction, for it and for all that it starts. No core
// file may have a token in it, and nobody else may read what git writes.
std::vector<std::string> limited(const FetchLimits& limits, std::vector<std::string> words) {
  std::vector<std::string> argv{
      "sh",
      "-c",
      fmt::format("umask 077; ulimit -c 0; ulimit -f {}; ulimit -v {}; exec \"$@\"",
                  limits.file_bytes / 512, limits.memory_bytes / 1024),
      "sh",
      "git",
      "--no-pager"};
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

Result<End> run(const ChildTerms& terms, std::string_view input, std::size_t most_output,
                Clock::time_point deadline) {
  auto child = Child::start(terms);
  if (!child) return std::unexpected(child.error());
  End end;
  std::vector<char> buffer(64u << 10);
  for (;;) {
    auto got = child->exchange(input, true, buffer.data(), buffer.size(), deadline);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    if (end.output.size() + *got > most_output)
      return fail(Errc::overloaded, "it lists more than {} MB", most_output >> 20);
    end.output.append(buffer.data(), *got);
  }
  auto code = child->wait(deadline);
  if (!code) return std::unexpected(code.error());
  end.code = *code;
  end.errors = child->errors();
  return end;
}

// A file in memory that only those who inherit it can name, and nobody can change.
Result<Descriptor> in_memory(const Secret& text) {
  Descriptor file(memfd_create("credential", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto& bytes = text.reveal();
  if (file.get() < 0 ||
      ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return fail(Errc::unavailable, "memfd_create: {}", std::strerror(errno));
  return file;
}

// What git gets as descriptor 3: the credential, or a local repository, or nothing.
Result<Descriptor> inherited(const RemoteSettings& settings, const RemoteRequest& request) {
  if (request.credential) return in_memory(credential_lines(*request.credential));
  if (request.url.transport() != Transport::file) return Descriptor();
  auto folder = open_local(request.url, settings.rules);
  if (!folder) return std::unexpected(folder.error());
  return Descriptor(*folder);
}

std::unexpected<Error> in_words_of(const RemoteRequest& request, const Error& error) {
  auto what = scrubbed(error.what, request.credential);
  if (error.code == Errc::timeout) what = "the deadline passed before it answered in full";
  return fail(error.code, "{}: {}", request.url.text(), what);
}

constexpr int most_redirects = 5;
// How every question of git to a web server begins.
constexpr std::string_view first_request = "/info/refs?service=git-upload-pack";

// One command that talks to the remote, however it ends; `address` stands in its words for the URL.
constexpr std::string_view address = "\1";
// Headers among the errors, without passwords: git takes those out.
enum class Trace { none, headers };

Result<End> end_of_remote(const RemoteSettings& settings, const RemoteRequest& request,
                          const std::filesystem::path& repository, std::vector<std::string> words,
                          Trace trace = Trace::none) {
  auto descriptor = inherited(settings, request);
  if (!descriptor) return std::unexpected(descriptor.error());
  bool is_local = request.url.transport() == Transport::file;
  if (is_local) words.insert(words.begin() + 1, fmt::format("--upload-pack={}", local_upload_pack));
  std::ranges::replace(words, address, is_local ? inherited_folder : request.url.text());
  ChildTerms terms;
  terms.argv = limited(settings.limits, std::move(words));
  terms.environment = environment(name(request.url.transport()), repository);
  terms.environment.push_back("GIT_SSH_COMMAND=" + ssh_command(settings.ssh));
  terms.environment.push_back("GIT_SSH_VARIANT=ssh");
  if (request.url.transport() == Transport::ssh)
    terms.environment.push_back(own_variable("SSH_AUTH_SOCK", ""));
  if (trace == Trace::headers)
    terms.environment.insert(terms.environment.end(),
                             {"GIT_TRACE_CURL=1", "GIT_TRACE_CURL_NO_DATA=1"});
  set(terms.environment, remote_settings(settings, request));
  terms.file_bytes = settings.limits.file_bytes;
  if (descriptor->get() >= 0) terms.descriptors = {descriptor->get()};
  terms.stop = request.stop;
  auto deadline = std::min(request.deadline, Clock::now() + settings.limits.time);
  auto end = run(terms, {}, settings.limits.listing_bytes, deadline);
  if (!end) return in_words_of(request, end.error());
  for (auto at = end->errors.find(inherited_folder); is_local && at != std::string::npos;
       at = end->errors.find(inherited_folder))
    end->errors.replace(at, std::strlen(inherited_folder), request.url.text());
  return end;
}

Result<End> or_trouble(Result<End> end, const RemoteRequest& request) {
  if (!end || end->code == 0) return end;
  return std::unexpected(trouble(end->code, end->errors, request.url, request.credential));
}

std::string_view take_until(std::string_view& text, char end) {
  auto part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

Result<Listing> parse_listing(std::string_view output, const std::vector<std::string>& names,
                              const RemoteUrl& url) {
  Listing listing{.url = url, .commits = {}, .head = {}};
  while (!output.empty()) {
    auto line = take_until(output, '\n');
    auto value = take_until(line, '\t');
    bool is_peeled = line.ends_with("^{}");
    if (is_peeled) line.remove_suffix(3);
    // The patterns that git takes match the ends of other names too.
    if (std::ranges::find(names, line) == names.end()) continue;
    if (line == "HEAD" && value.starts_with("ref: ")) {
      listing.head = value.substr(5);
      continue;
    }
    if (!git::is_hash(value))
      return fail(Errc::protocol, "{}: git lists what is no commit", url.text());
    if (is_peeled)
      listing.commits[std::string(line)] = value;
    else
      listing.commits.try_emplace(std::string(line), value);
  }
  return listing;
}

// The URL of the repository that a Location leads to.
std::string place_of(std::string_view location, const RemoteUrl& from) {
  if (location.ends_with(first_request)) location.remove_suffix(first_request.size());
  bool is_path = location.starts_with('/') && !location.starts_with("//");
  if (!is_path) return std::string(location);
  auto host = from.text().substr(0, from.text().find('/', from.text().find("://") + 3));
  return host.append(location);
}

// Where a repository is that is not where it was looked for. Another host is somebody else, whoever
// says so: nothing is asked there.
Result<RemoteUrl> followed(const RemoteSettings& settings, const RemoteRequest& request,
                           const Redirection& redirection) {
  auto moved = RemoteUrl::parse(place_of(redirection.to, request.url), settings.rules);
  bool is_as_safe = moved && (moved->url.transport() == request.url.transport() ||
                              moved->url.transport() == Transport::https);
  if (is_as_safe && moved->url.host() == request.url.host() && !moved->credential &&
      redirection.to.ends_with(first_request))
    return moved->url;
  return fail(Errc::refused,
              "{} redirects to what is not followed: {}. Add that one, if you trust it",
              request.url.text(), moved ? moved->url.text() : moved.error().what);
}

}  // namespace

Result<Listing> list_remote(const RemoteSettings& settings, RemoteRequest request,
                            const std::vector<std::string>& names) {
  std::vector<std::string> words{"ls-remote", "--symref", "--end-of-options", std::string(address)};
  for (const auto& name : names) {
    words.push_back(name);
    if (name.starts_with("refs/tags/")) words.push_back(name + "^{}");
  }
  bool is_for_good = true;
  for (int step = 0; step <= most_redirects; ++step) {
    auto end = end_of_remote(settings, request, {}, words);
    bool is_elsewhere = end && end->code != 0 && is_redirected(end->errors);
    if (!is_elsewhere) {
      end = or_trouble(std::move(end), request);
      if (!end) return std::unexpected(end.error());
      auto listing = parse_listing(end->output, names, request.url);
      if (listing) listing->is_moved = step > 0 && is_for_good;
      return listing;
    }
    // It does not say where to: asked once more, it shows what the server sends.
    auto traced = end_of_remote(settings, request, {}, words, Trace::headers);
    if (!traced) return std::unexpected(traced.error());
    auto redirect = redirection(traced->errors);
    if (!redirect)
      return std::unexpected(trouble(end->code, end->errors, request.url, request.credential));
    auto url = followed(settings, request, *redirect);
    if (!url) return std::unexpected(url.error());
    request.url = *std::move(url);
    is_for_good = is_for_good && redirect->is_permanent;
  }
  return fail(Errc::refused, "{}: it redirects more than {} times", request.url.text(),
              most_redirects);
}

namespace {

// Whether git was stopped by the bound on a file: it says only that its index-pack went away.
bool is_at_limit(const std::filesystem::path& repository, const FetchLimits& limits) {
  constexpr std::uintmax_t last_write = 1u << 20;
  std::error_code error;
  for (std::filesystem::directory_iterator all(repository / "objects/pack", error), end;
       !error && all != end; all.increment(error)) {
    std::error_code gone;
    auto size = all->file_size(gone);
    if (!gone && size + last_write > limits.file_bytes) return true;
  }
  return false;
}

}  // namespace

std::string local_ref(std::string_view name) { return "refs/warren/" + file_name(name); }

Result<> fetch_remote(const RemoteSettings& settings, const RemoteRequest& request,
                      const std::filesystem::path& repository,
                      const std::vector<std::string>& names, unsigned depth) {
  std::vector<std::string> words{"fetch",        "--no-tags",
                                 "--quiet",      "--no-recurse-submodules",
                                 "--force",      "--no-write-fetch-head",
                                 "--no-auto-gc", "--no-auto-maintenance"};
  if (depth > 0) words.push_back(fmt::format("--depth={}", depth));
  words.insert(words.end(), {"--end-of-options", std::string(address)});
  for (const auto& name : names) words.push_back(fmt::format("+{}:{}", name, local_ref(name)));
  auto end = or_trouble(end_of_remote(settings, request, repository, std::move(words)), request);
  if (end) return ok;
  if (end.error().code == Errc::protocol && is_at_limit(repository, settings.limits))
    return fail(Errc::overloaded, "{}: its pack is larger than the {} MB that are allowed",
                request.url.text(), settings.limits.file_bytes >> 20);
  return std::unexpected(end.error());
}

Result<> run_local(const FetchLimits& limits, const std::filesystem::path& repository,
                   std::vector<std::string> words, Clock::time_point deadline, int stop) {
  ChildTerms terms;
  terms.argv = limited(limits, std::move(words));
  terms.environment = environment("none", repository);
  set(terms.environment, common_settings());
  terms.file_bytes = limits.file_bytes;
  terms.stop = stop;
  auto end = run(terms, {}, limits.listing_bytes, std::min(deadline, Clock::now() + limits.time));
  if (!end) return std::unexpected(within(repository.string(), end.error()));
  if (end->code == 0) return ok;
  auto words_said = end->errors.substr(0, end->errors.find('\n'));
  return fail(Errc::unavailable, "{}: git ended with {}: {}", repository.string(), end->code,
              words_said);
}

Result<Secret> ask_helper(const std::string& helper, const RemoteUrl& url,
                          Clock::time_point deadline, int stop) {
  ChildTerms terms;
  terms.argv = {"git", "--no-pager", "credential", "fill"};
  terms.environment = environment("none", {});
  std::erase(terms.environment, "HOME=/nonexistent");
  for (const char* variable : {"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"})
    if (const char* value = std::getenv(variable))
      terms.environment.push_back(fmt::format("{}={}", variable, value));
  set(terms.environment, {{"credential.helper", ""}, {"credential.helper", helper}});
  terms.stop = stop;
  std::string_view path = url.text();
  path.remove_prefix(std::min(path.size(), path.find('/', path.find("://") + 3) + 1));
  auto question =
      fmt::format("protocol={}\nhost={}\npath={}\n\n", name(url.transport()), url.host(), path);
  auto end = run(terms, question, 64u << 10, deadline);
  if (!end) return std::unexpected(within("the credential helper for " + url.host(), end.error()));
  Secret answer(std::move(end->output));
  // git ends so when no helper knew an answer and it may not ask a person.
  if (end->code != 0) return Secret("");
  return answer;
}

Result<Stop> Stop::create() {
  int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) return fail(Errc::unavailable, "eventfd: {}", std::strerror(errno));
  return Stop(descriptor);
}

Stop::~Stop() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Stop::raise() const {
  // It fails only when it is raised already.
  if (eventfd_write(descriptor_, 1) != 0) return;
}

}  // namespace warren::fleet
