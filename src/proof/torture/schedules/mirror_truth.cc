#include "proof/torture/schedules/mirror_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace warren::mirror {

std::optional<std::size_t> keys::number_of(std::string_view key) {
  for (std::size_t type = 0; type < folders.size(); ++type) {
    std::string_view folder = folders[type];
    if (!key.starts_with(folder)) continue;
    auto id = number_in(key.substr(folder.size()));
    if (id < counts[type]) return firsts[type] + id;
  }
  return {};
}

std::string keys::name_of(std::size_t number) {
  std::size_t type = folders.size() - 1;
  while (number < firsts[type]) --type;
  return fmt::format("{}{}", folders[type], number - firsts[type]);
}

Number number_in(std::string_view value) {
  Number number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

Truth::Truth(std::size_t keys) {
  auto& root = entries_.emplace_back();
  root.values.resize(keys);
  last_ = base_ = &root;
}

std::optional<std::string> Truth::on_written(Clock::time_point now, const sim::Words& words,
                                             const redis::Reply& reply) {
  if (reply.items.size() != 3) return {};  // it had been written before, or was refused
  auto args = 3 + static_cast<std::size_t>(std::stoul(words[2]));
  const auto &writer = words[args + 2], &packed = words[args + 4];
  const auto &id = reply.items[0].text, &attempt = reply.items[1].text;
  const auto* before = find(reply.items[2].text);
  if (!before)
    return fmt::format("entry {} follows {}, which nobody wrote", id, reply.items[2].text);
  auto number = number_in(writer.substr(1));
  auto batch = number_in(attempt);
  Entry entry{.at = {parse_version(id).value_or(Version{}), writer + ':' + attempt},
              .before = before,
              .depth = before->depth + 1,
              .time = now,
              .values = before->values,
              .changes = {},
              .batches = before->batches};
  std::optional<std::string> wrong;
  if (batch <= entry.batches.at(number))
    wrong = fmt::format("{} is in the log after batch {} of the same writer", entry.at.stamp,
                        entry.batches[number]);
  entry.batches[number] = batch;
  auto changes = unpack(packed);
  if (!changes) return "entry " + id + " cannot be read";
  for (const auto& change : *changes) {
    auto key = keys::number_of(change.key);
    if (!key || *key >= entry.values.size()) return "there is no key " + std::string(change.key);
    auto value = change.value ? number_in(*change.value) : 0;
    entry.values[*key] = {value, entry.at.version};
    entry.changes.emplace_back(*key, value);
  }
  if (by_stamp_.contains(entry.at.stamp)) wrong = entry.at.stamp + " was written twice";
  last_ = &entries_.emplace_back(std::move(entry));
  by_stamp_[last_->at.stamp] = last_;
  by_writer_[number].push_back(last_);
  auto newest = written_.empty() ? Version{} : written_.back().newest;
  written_.push_back({now, std::max(newest, last_->at.version)});
  return wrong;
}

void Truth::on_outside(std::size_t key, Number number) {
  outside_.push_back({key, number, last_->at.version});
}

void Truth::on_flushed() {
  for (std::size_t key = 0; key < entries_.front().values.size(); ++key) on_outside(key, 0);
  base_ = &entries_.front();
}

void Truth::on_head_deleted() { base_ = last_; }

void Truth::on_other_server(Clock::time_point now) {
  written_.clear();
  same_since_ = now;
}

const Truth::Entry* Truth::find(const std::string& stamp) const {
  if (stamp == entries_.front().at.stamp) return base_;
  auto found = by_stamp_.find(stamp);
  return found == by_stamp_.end() ? nullptr : found->second;
}

const Truth::Entry* Truth::find(std::size_t writer, Version version, const Changes& changes) const {
  const auto& written = by_writer_.at(writer);
  for (auto i = written.rbegin(); i != written.rend(); ++i) {
    const auto& entry = **i;
    if (entry.at.version == version && std::ranges::all_of(changes, [&](const auto& change) {
          return has_change(entry, writer, change.first, change.second);
        }))
      return &entry;
  }
  return nullptr;
}

bool Truth::has_change(const Entry& entry, std::size_t writer, std::size_t key,
                       Number number) const {
  const auto& written = by_writer_.at(writer);
  auto batch = entry.batches[writer];
  for (auto i = written.rbegin(); i != written.rend(); ++i) {
    if ((*i)->batches[writer] > batch) continue;
    for (const auto& [changed, to] : (*i)->changes)
      if (changed == key && (to == 0 || to >= number)) return true;
  }
  return false;
}

bool Truth::is_unique(Version version) const {
  return std::ranges::count(entries_, version, [](const Entry& e) { return e.at.version; }) == 1;
}

bool Truth::is_before(const Entry& older, const Entry& newer) {
  const auto* entry = &newer;
  while (entry->depth > older.depth) entry = entry->before;
  return entry == &older;
}

bool Truth::allows(const Entry& entry, std::size_t key, Number number, bool is_one_history) const {
  const auto& value = entry.values[key];
  if (value.number == number) return true;
  return std::ranges::any_of(outside_, [&](const Outside& outside) {
    return outside.key == key && outside.number == number &&
           (!is_one_history || outside.tail >= value.since);
  });
}

Version Truth::written_before(Clock::time_point time) const {
  if (time <= same_since_) return {};
  auto after = std::ranges::lower_bound(written_, time, {}, &Written::time);
  return after == written_.begin() ? Version{} : std::prev(after)->newest;
}

}  // namespace warren::mirror
