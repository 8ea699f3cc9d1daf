#pragma once
// The trace of a repository on its way into memory, up to the first answer from it.
//
//   fleet.claim             from the claim until it is indexed, or has failed
//     ├── fleet.fetch         refs looked up, and what is new transferred
//     ├── fleet.read          texts into memory
//     ├── fleet.ready         the catalog is told: it answers, by scanning
//     ├── fleet.index
//     ├── fleet.ready         once more, with its index
//     └── fleet.first_answer  the first search in it since then
//
// A new commit of what is served already is such a trace as well (fleet.update), and so is a row that is
// taken over from another node (fleet.take_over). A look that finds nothing new is none.
#include <optional>
#include <string>
#include <string_view>

#include "base/trace/trace.h"

namespace warren::fleet {

class Journey {
 public:
  // Goes on with the one that has begun, if one has. The tracer outlives it.
  void begin(Tracer& tracer, std::string_view name, std::string_view repo);
  bool is_on() const { return span_.has_value(); }
  // About all of it. Lost while none is on.
  template <class T>
  void set(std::string_view key, const T& value) {
    if (span_) span_->set(key, value);
  }
  // A part of it; none while none is on.
  std::optional<Span> step(std::string_view name) const;
  void end(const Result<>& how);

  // From now on it can be answered from what was brought.
  void on_ready();
  // The span of an answer, if it is the first since then.
  std::optional<Span> first_answer();

 private:
  Tracer* tracer_ = nullptr;
  std::optional<Span> span_;
  std::string repo_;
  TraceContext context_ = {};  // also when it has ended
  enum class Answers { not_yet, due, given } answers_ = Answers::not_yet;
};

// Ends a step with what came of it.
template <class T>
void end_step(std::optional<Span>& step, const Result<T>& how) {
  if (step && !how) step->fail(how.error().what);
  step.reset();
}

}  // namespace warren::fleet
