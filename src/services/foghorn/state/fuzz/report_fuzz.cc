// libFuzzer target (scripts/fuzz report): arbitrary bytes as the body of a report, and as a value
// that somebody put into Redis, and what must hold for all of them.
#include <boost/json/src.hpp>  // built along, so that the fuzzer sees into it
#include <cmath>

#include "services/foghorn/state/report.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

void hold(bool condition) {
  if (!condition) __builtin_trap();
}

// What was read is written, and read again as the same: instances that compare what they know must
// not differ because one of them has it first hand.
template <class Parse>
void check_entity(std::string_view text, Parse parse) {
  auto entity = parse(text);
  if (!entity) {
    hold(entity.error().code == Errc::invalid && !entity.error().what.empty());
    return;
  }
  auto written = to_json(*entity);
  auto again = parse(written);
  hold(again.has_value());
  hold(to_json(*again) == written);
}

void check_amount(const std::optional<double>& number) {
  if (number) hold(std::isfinite(*number) && *number >= 0);
}

void check_taken(const NodeReport& report) {
  hold(check_report(report).has_value());
  for (const auto& amount :
       {report.ram_max, report.ram_current, report.up_speed, report.down_speed, report.bw_limit})
    check_amount(amount);
  if (report.cpu_tenths) hold(*report.cpu_tenths >= 0 && *report.cpu_tenths <= 4'294'967'295);
  if (report.latitude) hold(std::abs(*report.latitude) <= 90);
  if (report.longitude) hold(std::abs(*report.longitude) <= 180);
  if (report.streams)
    for (const auto& [name, stream] : *report.streams)
      hold(check_id("", name) && stream.total >= 0 && stream.inputs >= 0);
  if (report.artifacts)
    for (const auto& artifact : *report.artifacts)
      hold(check_id("", artifact.content_id).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto report = parse_report(text))
    check_taken(*report);
  else
    hold(report.error().code == Errc::invalid && !report.error().what.empty());
  if (auto registration = parse_registration(text); registration && !registration->node_id.empty())
    hold(check_registration(*registration).has_value());
  check_entity(text, parse_node);
  check_entity(text, parse_stream);
  check_entity(text, parse_instance);
  check_entity(text, parse_artifact);
  check_entity(text, parse_mode);
  check_entity(text, parse_penalties);
  return 0;
}
