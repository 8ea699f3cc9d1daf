#include "services/fleet/node/journey.h"

namespace warren::fleet {

void Journey::begin(Tracer& tracer, std::string_view name, std::string_view repo) {
  if (span_) return;
  tracer_ = &tracer;
  repo_ = repo;
  span_.emplace(tracer.start(name));
  span_->set("repo", repo_);
  context_ = span_->context();
  answers_ = Answers::not_yet;
}

std::optional<Span> Journey::step(std::string_view name) const {
  if (!span_) return std::nullopt;
  auto span = tracer_->start(name, SpanKind::internal, context_);
  span.set("repo", repo_);
  return span;
}

void Journey::end(const Result<>& how) { end_step(span_, how); }

void Journey::on_ready() {
  if (span_ && answers_ == Answers::not_yet) answers_ = Answers::due;
}

std::optional<Span> Journey::first_answer() {
  if (answers_ != Answers::due) return std::nullopt;
  answers_ = Answers::given;
  auto span = tracer_->start("fleet.first_answer", SpanKind::server, context_);
  span.set("repo", repo_);
  return span;
}

}  // namespace warren::fleet
