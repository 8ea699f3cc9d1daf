#include "services/board/watch/archive.h"

#include "services/board/store/json_parts.h"

namespace warren::watch {

using namespace board;
namespace json = boost::json;

namespace {

constexpr std::string_view format_name = "warren-board";
constexpr std::int64_t format_version = 1;

std::string text_json(std::string_view text) { return parts::serialize(parts::text_value(text)); }

std::string line_of(const ArchiveHead& head) {
  return fmt::format(R"({{"format":"{}","version":{},"instance":{}}})", format_name, format_version,
                     text_json(head.instance));
}

std::string line_of(const ArchivedClaim& archived) {
  json::object bids;
  for (const auto& [role, bid] : archived.bids) bids[role] = name(bid);
  return fmt::format(R"({{"claim":{},"created_at_ms":{},"current":{},"bids":{}}})",
                     to_json(archived.claim), parts::milliseconds(archived.created_at),
                     archived.is_current, parts::serialize(bids));
}

std::string line_of(const ArchivedQueueing& queued) {
  return fmt::format(R"({{"queued":{{"role":{},"claim_id":{},"paused_at_ms":{}}}}})",
                     text_json(queued.role), text_json(queued.claim_id),
                     parts::milliseconds(queued.paused_at));
}

std::string line_of(const Artefact& artefact) {
  return fmt::format(R"({{"artefact":{}}})", to_json(artefact));
}

std::string line_of(const ArchiveEnd& end) {
  return fmt::format(R"({{"end":{{"artefacts":{},"claims":{}}}}})", end.artefacts, end.claims);
}

Error wrong(std::string what) { return {Errc::invalid, std::move(what)}; }

Result<ArchiveLine> head_from(const json::object& object) {
  auto format = parts::text(object.if_contains("format"));
  auto version = parts::integer(object.if_contains("version"));
  auto instance = parts::text(object.if_contains("instance"));
  if (!format || *format != format_name)
    return std::unexpected(wrong(fmt::format("the format is not {}", format_name)));
  if (!version || *version != format_version)
    return std::unexpected(
        wrong(fmt::format("version {} is the only one we can read", format_version)));
  if (!instance) return std::unexpected(wrong("the instance is no text"));
  return ArchiveHead{*std::move(instance)};
}

Result<Bids> bids_of(const json::object& object) {
  Bids bids;
  const auto* member = object.if_contains("bids");
  if (parts::is_nothing(member)) return bids;
  if (!member->is_object()) return std::unexpected(wrong("bids is no object"));
  for (const auto& [role, value] : member->get_object()) {
    auto text = parts::text(&value);
    auto bid = text ? parse_bid_type(*text) : std::nullopt;
    auto checked = check_role(role);
    if (!bid) return std::unexpected(wrong(fmt::format("bids: {} bids something unknown", role)));
    if (!checked) return std::unexpected(checked.error());
    bids[role] = *bid;
  }
  return bids;
}

Result<ArchiveLine> claim_line(const json::object& object) {
  const auto* inner = object.if_contains("claim");
  if (!inner->is_object()) return std::unexpected(wrong("claim is no object"));
  auto claim = claim_from("claim", inner->get_object());
  if (!claim) return std::unexpected(wrong(claim.error().what));
  claim->revision.clear();
  auto checked = check(*claim);
  if (!checked) return std::unexpected(checked.error());
  auto created = parts::integer(object.if_contains("created_at_ms"));
  auto current = parts::boolean(object.if_contains("current"));
  if (!created || *created < 0) return std::unexpected(wrong("created_at_ms is no time"));
  if (!current) return std::unexpected(wrong("current is neither true nor false"));
  auto bids = bids_of(object);
  if (!bids) return std::unexpected(bids.error());
  return ArchivedClaim{*std::move(claim), parts::unix_time(*created), *current, *std::move(bids)};
}

Result<ArchiveLine> queued_line(const json::object& object) {
  const auto* inner = object.if_contains("queued");
  if (!inner->is_object()) return std::unexpected(wrong("queued is no object"));
  const auto& queued = inner->get_object();
  auto role = parts::text(queued.if_contains("role"));
  auto claim_id = parts::text(queued.if_contains("claim_id"));
  auto paused_at = parts::integer(queued.if_contains("paused_at_ms"));
  if (!role || !claim_id || !paused_at || *paused_at < 0)
    return std::unexpected(wrong("queued has no role, no claim_id or no paused_at_ms"));
  if (auto checked = check_role(*role); !checked) return std::unexpected(checked.error());
  if (auto checked = check_id("claim_id", *claim_id); !checked)
    return std::unexpected(checked.error());
  return ArchivedQueueing{*std::move(role), *std::move(claim_id), parts::unix_time(*paused_at)};
}

Result<ArchiveLine> artefact_line(const json::object& object) {
  const auto* inner = object.if_contains("artefact");
  if (!inner->is_object()) return std::unexpected(wrong("artefact is no object"));
  auto artefact = artefact_from("artefact", inner->get_object());
  if (!artefact) return std::unexpected(wrong(artefact.error().what));
  auto checked = check(*artefact);
  if (!checked) return std::unexpected(checked.error());
  return *std::move(artefact);
}

Result<ArchiveLine> end_line(const json::object& object) {
  const auto* inner = object.if_contains("end");
  if (!inner->is_object()) return std::unexpected(wrong("end is no object"));
  auto artefacts = parts::integer(inner->get_object().if_contains("artefacts"));
  auto claims = parts::integer(inner->get_object().if_contains("claims"));
  if (!artefacts || !claims || *artefacts < 0 || *claims < 0)
    return std::unexpected(wrong("end does not say how many artefacts and claims there are"));
  return ArchiveEnd{static_cast<std::size_t>(*artefacts), static_cast<std::size_t>(*claims)};
}

}  // namespace

std::string encode(const ArchiveLine& line) {
  return std::visit([](const auto& each) { return line_of(each); }, line);
}

Result<ArchiveLine> decode(std::string_view text) {
  auto object = parse_object("it", text);
  if (!object) return std::unexpected(wrong("it is no JSON object"));
  if (object->contains("format")) return head_from(*object);
  if (object->contains("claim")) return claim_line(*object);
  if (object->contains("queued")) return queued_line(*object);
  if (object->contains("artefact")) return artefact_line(*object);
  if (object->contains("end")) return end_line(*object);
  return std::unexpected(wrong("it is neither claim, queued, artefact nor end"));
}

Result<> ArchiveCheck::next(const ArchiveLine& line) {
  bool is_head = std::holds_alternative<ArchiveHead>(line);
  if (has_end_) return fail(Errc::invalid, "it stands behind the end");
  if (is_head == has_head_)
    return fail(Errc::invalid, "{}", is_head ? "it is a second head" : "the head is missing");
  has_head_ = true;
  if (const auto* claim = std::get_if<ArchivedClaim>(&line))
    if (!claims_.insert(claim->claim.id).second)
      return fail(Errc::invalid, "claim {} was there before", claim->claim.id);
  if (const auto* artefact = std::get_if<Artefact>(&line))
    if (!artefacts_.insert(artefact->id).second)
      return fail(Errc::invalid, "artefact {} was there before", artefact->id);
  if (const auto* queued = std::get_if<ArchivedQueueing>(&line))
    if (!claims_.contains(queued->claim_id))
      return fail(Errc::invalid, "claim {} is queued and not there", queued->claim_id);
  if (const auto* end = std::get_if<ArchiveEnd>(&line)) {
    has_end_ = true;
    if (end->artefacts != artefacts_.size() || end->claims != claims_.size())
      return fail(Errc::invalid, "there should be {} artefacts and {} claims, and are {} and {}",
                  end->artefacts, end->claims, artefacts_.size(), claims_.size());
  }
  return ok;
}

Result<> ArchiveCheck::ended() const {
  if (has_end_) return ok;
  return fail(Errc::invalid, "{}",
              has_head_ ? "the end is missing: this is only a part" : "it is empty");
}

}  // namespace warren::watch
