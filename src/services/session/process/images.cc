#include "services/session/process/images.h"

#include <fstream>
#include <iterator>

#include "services/session/drivers/spec_json.h"

namespace warren::session {

namespace {

constexpr std::string_view any_other = "*";

}  // namespace

Result<Images> Images::read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(Errc::invalid, "{}: it cannot be read", file.string());
  std::string text(std::istreambuf_iterator<char>(in), {});
  auto images = parse(text);
  if (!images) return fail(Errc::invalid, "{}: {}", file.string(), images.error().what);
  return images;
}

Result<Images> Images::parse(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return fail(Errc::invalid, "{}", value.error().what);
  if (!value->is_object())
    return fail(Errc::invalid, "use an object: {{\"image\": {{\"command\": [\"word\", …]}}}}");
  Images images;
  images.images_.emplace();
  for (const auto& [name, described] : value->get_object()) {
    auto& image = (*images.images_)[name];
    const auto* object = described.if_object();
    if (!object) return fail(Errc::invalid, "image \"{}\": use an object", std::string(name));
    const auto* command = object->if_contains("command");
    if (command && command->is_string()) {
      image.is_shell = true;
      image.command.emplace_back(command->get_string());
    } else if (command && command->is_array()) {
      for (const auto& word : command->get_array())
        if (word.is_string()) image.command.emplace_back(word.get_string());
    } else if (command) {
      return fail(Errc::invalid, "image \"{}\": a command is a line, or a list of words",
                  std::string(name));
    }
  }
  return images;
}

bool Images::has(std::string_view image) const {
  return !images_ || images_->contains(image) || images_->contains(any_other);
}

Result<> Images::apply(SandboxSpec& spec) const {
  if (!images_) return ok;
  auto found = images_->find(spec.image);
  if (found == images_->end()) found = images_->find(any_other);
  if (found == images_->end())
    return fail(Errc::invalid, "image \"{}\" is not among the images of this server", spec.image);
  if (found->second.command.empty()) return ok;
  spec.command = found->second.command;
  spec.is_shell = found->second.is_shell;
  return ok;
}

}  // namespace warren::session
