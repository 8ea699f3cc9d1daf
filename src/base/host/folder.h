#pragma once
// An open folder, in a place where somebody else may write.
//
//   us                            somebody        A path is resolved again at each use, and any
//    |-- is .warren a folder? yes     |           part of it may be a link by then. What is reached
//    |                   .warren -> /home/anna    from an open folder's descriptor, one name at a
//    |-- write .warren/x              |           time and through no link, stays below that folder.
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
  // Opens a path that a person gave: links in the path are followed.
  static Result<Folder> open(const std::filesystem::path& path);
  Folder(Folder&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // The functions below take one name, not a path. Errors: not_found if nothing has this name;
  // refused if the name belongs to something unexpected, such as a link (the text says what to do),
  // or if there is no space for the write.
  Result<Folder> folder(const std::string& name) const;
  Result<Folder> make_folder(const std::string& name) const;  // opens it if it exists
  // Reads a regular file. Errc::overloaded: it is longer than `most`.
  Result<std::string> read(const std::string& name, std::size_t most) const;
  // Returns false, and changes nothing, if anything has this name.
  Result<bool> create(const std::string& name, std::string_view text, unsigned mode = 0666) const;
  // Replaces any file or link of that name. The target of a link is left alone.
  Result<> replace(const std::string& name, std::string_view text, unsigned mode = 0666) const;
  // replace() in two steps, for several files that must all be writable before any of them is
  // replaced. Returns the temporary name that holds the text. Committing or discarding it removes
  // that name.
  Result<std::string> prepare(const std::string& name, std::string_view text,
                              unsigned mode = 0666) const;
  Result<> put_in_place(const std::string& prepared, const std::string& name) const;
  void discard(const std::string& prepared) const;
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;

  const std::filesystem::path& path() const { return path_; }  // for messages
  // This very folder as the working folder of a child, even if the path has been renamed or
  // replaced.
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
