#pragma once
// One request on its way through the routes.
#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "services/foghorn/http/playback.h"
#include "services/foghorn/http/surface.h"

namespace warren::foghorn {

// The outputs of nodes, parsed once for as long as they stay the same.
class OutputCache {
 public:
  const std::vector<Output>& of(std::uint32_t place, const balance::NodeFacts& node);

 private:
  struct Entry {
    std::string json;
    std::vector<Output> outputs;
  };
  std::vector<Entry> entries_;  // by place in the table
};

struct Call {
  const HttpRequest& request;
  HttpAnswer& answer;
  const SurfaceTerms& terms;
  Cluster& cluster;
  federation::Federation* federation;
  OutputCache& outputs;
  asio::ip::address client;  // behind proxies that are believed
  std::string_view rest;     // of the path: what is not yet understood
  double cost = 0;           // beyond that of one decision, in requests: see RateLimit

  std::optional<std::string> query(std::string_view name) const;
  bool is_method(std::string_view method) const;  // HEAD counts as GET
};
using Work = HttpServer::Work;
inline constexpr double cost_of_all = 50;  // of looking at everything there is

// --- answers -------------------------------------------------------------------------------------
// {"error": "Not Found", "message": …, "code": "VIEW_KEY_NOT_FOUND"}
// What was added to the answer stays: pages may read why, too.
void refuse(HttpAnswer& answer, int status, std::string_view code, std::string_view message);
void refuse(HttpAnswer& answer, const Error& error);
// With this Location. What cannot be one is a 500.
void send_to(HttpAnswer& answer, int status, std::string_view url);
void refuse_method(HttpAnswer& answer, std::string_view allowed);
void give(HttpAnswer& answer, const boost::json::value& value);
// What an entity is as JSON. Those of reports may be deeper than the library allows by itself.
boost::json::value value_in(std::string_view text);

// --- what requests have in common ----------------------------------------------------------------
struct ViewerPlace {
  double latitude = balance::unknown_place, longitude = balance::unknown_place;
};
// CF-IPLatitude and CF-IPLongitude, else X-Latitude and X-Longitude, else lat and lon. What is no
// place on Earth is not looked at.
ViewerPlace place_of(const HttpRequest& request);
// X-Tag-Adjust, else tag_adjust: a JSON object of whole numbers. Anything else is none.
std::vector<balance::TagAdjustment> adjustments_of(const HttpRequest& request);
// The last address of X-Forwarded-For, of all its lines, that is no believed proxy.
asio::ip::address client_of(const HttpRequest& request,
                            const std::vector<asio::ip::address>& proxies);
// Sends the viewer there: what its URL has to carry. A HEAD is nobody who comes.
std::string expect_viewer(Call& call, std::string_view node, std::string_view content);
// Before all was loaded what is not found may exist: 503, instead of a no.
bool is_loading(Call& call);
// The first one that can be reached; null: none.
const balance::NodeFacts* best_of(const balance::RoutingTable& table,
                                  const balance::Decision& decision);
// Whether it may change something; if not, the answer says why.
bool may_change(const Call& call);
bool is_trusted(const HttpRequest& request, const SurfaceTerms& terms);
// A whole number of the query, between 0 and most.
std::size_t number_of(const Call& call, std::string_view name, std::size_t fallback,
                      std::size_t most);

}  // namespace warren::foghorn
