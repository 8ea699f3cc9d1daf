#pragma once
// How git is run on repositories that strangers made.
#include <initializer_list>
#include <string>

#include "search/source/process.h"

namespace warren::search {

// `git ARGUMENTS` in exactly this repository, never one around it. Nothing that the repository, the
// user or the system has configured makes it run a program or open a connection: no hook or filter
// is in reach of the commands we use, no transport is allowed, and objects that are not there are
// not fetched.
ChildTerms git(const std::string& path, std::initializer_list<std::string> arguments);

// The same with the person's own settings, where his ignore rules are; they are his, so that they
// are obeyed.
ChildTerms git_of_user(const std::string& path, std::initializer_list<std::string> arguments);

}  // namespace warren::search
