#pragma once
// A folder that is open, in a place where somebody else may write.
//
//   us                            somebody        A path is looked up anew at each use, and any part
//    |-- is .warren a folder? yes     |           of it may be a link by then. What is reached from
//    |                   .warren -> /home/anna    the descriptor of a folder, one name at a time and
//    |-- write .warren/x              |           through no link, stays below that folder.
//    |        (is /home/anna/x)       |
//
//   auto workspace = Folder::open(path);
//   auto ours = workspace->make_folder(".warren");
//   auto made = ours->create(".gitignore", "*\n");
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace warren {

class Folder {
 public:
  // As a person names it: links in the path are followed.
  static Result<Folder> open(const std::filesystem::path& path);
  Folder(Folder&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // Each of these takes one name, not a path. Errc::not_found: nothing has this name. Errc::refused:
  // something has it that is not what is wanted, such as a link; the text says what to do; or there
  // is no room for what is to be written.
  Result<Folder> folder(const std::string& name) const;
  Result<Folder> make_folder(const std::string& name) const;  // or opens the one that is there
  // Of a regular file. Errc::overloaded: it is longer.
  Result<std::string> read(const std::string& name, std::size_t most) const;
  // False, and nothing is changed, when anything has this name.
  Result<bool> create(const std::string& name, std::string_view text, unsigned mode = 0666) const;
  // Whatever file or link had the name goes; what a link pointed to stays.
  Result<> replace(const std::string& name, std::string_view text, unsigned mode = 0666) const;
  // The same in two steps, for several files of which none is to be replaced unless all can be
  // written. Returns the name under which the text waits; that is no more after either of the others.
  Result<std::string> prepare(const std::string& name, std::string_view text,
                              unsigned mode = 0666) const;
  Result<> put_in_place(const std::string& prepared, const std::string& name) const;
  void discard(const std::string& prepared) const;
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;

  const std::filesystem::path& path() const { return path_; }  // for messages
  // This very folder, for a child to start in, whatever became of its path.
  std::filesystem::path for_child() const;

 private:
  Folder(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  std::unexpected<Error> failure(const std::string& name, int error) const;
  int write_new(const std::string& name, std::string_view text, unsigned mode) const;

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace warren
