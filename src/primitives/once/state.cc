#include <charconv>

#include "primitives/once/machine.h"

namespace warren {

namespace {

std::int64_t signed_in(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// In the order of once.lua.
enum class Field : std::uint8_t {
  done,
  now,
  epoch,
  counter,
  phase,
  status,
  owner,
  until,
  was,
  record,
  ends,
  error,
  retry,
  left,
  note,
};
constexpr std::size_t field_count = std::size_t(Field::note) + 1;

// Each text is a field of once.lua.
struct Fields {
  std::vector<std::string_view> texts;
  std::string_view operator[](Field field) const { return texts[std::size_t(field)]; }
  std::int64_t number(Field field) const { return signed_in((*this)[field]); }
};

Errc code_named(std::string_view text) {
  for (int code = 0; code <= int(Errc::cancelled); ++code)
    if (name(Errc(code)) == text) return Errc(code);
  return Errc::refused;
}

std::optional<OnceState::Phase> phase_named(std::string_view text) {
  using Phase = OnceState::Phase;
  if (text == "none") return Phase::none;
  if (text == "busy") return Phase::busy;
  if (text == "left") return Phase::left;
  if (text == "failed") return Phase::failed;
  return std::nullopt;
}

std::optional<OnceState> state_in(const Fields& fields) {
  auto phase_now = phase_named(fields[Field::phase]);
  if (!phase_now) return std::nullopt;
  OnceState state;
  state.phase = *phase_now;
  state.token.epoch = std::uint64_t(fields.number(Field::epoch));
  state.token.counter = std::uint64_t(fields.number(Field::counter));
  state.status = fields[Field::status];
  state.owner = fields[Field::owner];
  state.was = fields[Field::was];
  state.record = fields[Field::record];
  state.left = fields[Field::left];
  state.note = fields[Field::note];
  auto time = fields.number(Field::now);
  state.alive_for = std::chrono::milliseconds(fields.number(Field::until) - time);
  state.retry_after = std::chrono::milliseconds(fields.number(Field::retry) - time);
  if (!fields[Field::error].empty()) {
    auto end = std::min(fields[Field::error].find(' '), fields[Field::error].size());
    auto what = fields[Field::error].substr(std::min(end + 1, fields[Field::error].size()));
    state.error = Error{code_named(fields[Field::error].substr(0, end)), std::string(what)};
  }
  return state;
}

}  // namespace

std::optional<OnceState> OnceState::of(const redis::Reply& reply) {
  if (reply.items.size() < field_count) return std::nullopt;
  Fields fields;
  for (std::size_t i = 0; i < field_count; ++i) fields.texts.emplace_back(reply.items[i].text);
  auto state = state_in(fields);
  if (!state) return std::nullopt;
  state->is_done = reply.items[0].number == 1;
  if (reply.items.size() < field_count + 2) return state;
  state->foreign = reply.items[field_count].text;
  const auto& lock = reply.items[field_count + 1].text;
  if (!lock.empty()) state->foreign_lock = std::chrono::milliseconds(signed_in(lock));
  return state;
}

std::optional<std::pair<std::string, OnceState>> OnceState::of_message(std::string_view payload) {
  Fields fields;
  for (std::size_t i = 0; i < field_count; ++i) {
    auto colon = payload.find(':');
    if (colon == payload.npos || colon == 0 || colon > 8) return std::nullopt;
    auto size = signed_in(payload.substr(0, colon));
    payload.remove_prefix(colon + 1);
    if (size < 0 || std::size_t(size) > payload.size()) return std::nullopt;
    fields.texts.push_back(payload.substr(0, std::size_t(size)));
    payload.remove_prefix(std::size_t(size));
  }
  auto state = state_in(fields);
  if (!state) return std::nullopt;
  state->is_complete = payload == "+";
  return std::pair(std::string(fields.texts[0]),
                   *std::move(state));  // a message has the name in this field
}

OnceRecord OnceState::as_record(std::string name) const {
  OnceRecord seen{.name = std::move(name), .status = status, .bytes = record, .token = token};
  seen.is_busy = phase == Phase::busy;
  seen.is_orphan = seen.is_busy && alive_for <= 0ms;
  seen.owner = owner;
  seen.error = error;
  if (phase == Phase::failed) {
    seen.status = "failed";
    seen.retry_after = std::max(retry_after, 0ms);
  }
  if (phase == Phase::none) seen.status.clear();
  return seen;
}

}  // namespace warren
