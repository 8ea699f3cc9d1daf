#pragma once
// Settings that know their origin: flag over environment over file over default.
//
//   --redis-url=…        wins over
//   REDIS_URL=…          (or the contents of the file that REDIS_URL_FILE names) over
//   [redis] url = "…"    in warren.toml over
//   the default
//
// Every setting is declared once, with its help text and its check. If a value fails its check, the
// program stops at startup and reports where the value came from (including file and line) and what
// is allowed. Secrets, and passwords within URLs, are masked wherever a value is shown. Secrets
// cannot be given as flags, because every user of the machine can read a command line.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren {

struct Setting {
  std::string name;         // "redis.url": table and key in the file; the flag is --redis-url
  std::string environment;  // "REDIS_URL"; if empty, only the flag and the file set it
  std::string fallback;     // the default; empty means "not set"
  std::string help;
  bool secret = false;
  // Fails with Errc::invalid and says what is allowed ("use a whole number"). Not called for an
  // empty fallback. If the error text repeats a secret, the text is not shown.
  std::function<Result<>(std::string_view value)> check = nullptr;
  // The settings that name the server to which this one belongs. If a flag or a variable gives one
  // of them, the file's value of this setting does not count: a password is meant for the server
  // that the same file names, and a file must not weaken the check of a server that is named
  // elsewhere.
  std::vector<std::string> belongs_to = {};
};

// Common checks.
std::function<Result<>(std::string_view)> one_of(std::vector<std::string> words);
std::function<Result<>(std::string_view)> whole_number(long long least, long long most);
std::function<Result<>(std::string_view)> duration();
Result<std::chrono::milliseconds> parse_duration(std::string_view text);  // 250ms, 5s, 2m, 1h

struct ConfigSources {
  std::map<std::string, std::string> flags;        // by setting name, without the dashes
  std::map<std::string, std::string> environment;  // an empty value counts as not set
  std::string file;                                // empty: none. Must exist when it is given
  std::optional<std::string> file_text = {};       // its text, if it was read already
  bool is_found = false;  // no flag or variable names it: it lies in the current folder
};

// The settings that a file's text gives, with secrets masked. Values are not checked. Errors are
// those of Config::load.
struct FileSetting {
  std::string name, shown;
};
Result<std::vector<FileSetting>> settings_in_file(const std::vector<Setting>& settings,
                                                  const std::string& path, std::string_view text);

// The process' own, for ConfigSources.
std::map<std::string, std::string> process_environment();
// Removes secrets from the environment of this process, also as /proc shows it to every program of the
// same user: values of secret settings, and of settings with a password in a URL. Before any thread, and
// not in a process that starts another one which needs them.
void hide_secrets(const std::vector<Setting>& settings);

class Config {
 public:
  // Fails with Errc::invalid for a bad value, an unknown key in the file (suggesting the nearest
  // known one), a secret given as a flag, X and X_FILE both set, or an unreadable file. A list in
  // the file equals its members joined by commas. One trailing newline in the file that X_FILE
  // names is dropped.
  static Result<Config> load(std::vector<Setting> settings, const ConfigSources& sources);

  struct Value {
    const Setting* setting;
    std::string value;
    // "flag --redis-url", "environment REDIS_URL", "file warren.toml:3", "default"
    std::string origin;
    bool is_set;  // anywhere except by the default
  };

  // The name must have been declared. number() and time() also require the matching check.
  const Value& at(std::string_view name) const;
  const std::string& text(std::string_view name) const { return at(name).value; }
  long long number(std::string_view name) const;
  std::chrono::milliseconds time(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  const std::vector<Value>& values() const { return values_; }

  // The value as it may be shown: ******** for a secret that is set, redis://user:********@host.
  static std::string shown(const Value& value);

 private:
  void leave_out_strangers(const std::map<std::string, std::string>& given);

  std::vector<std::unique_ptr<Setting>> settings_;  // values_ point at these
  std::vector<Value> values_;
};

}  // namespace warren
