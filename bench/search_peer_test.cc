#include "search_peer.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <thread>

#include "base/task.h"
#include "search/query/query.h"
#include "search_queries.h"
#include "search_words.h"
#include "services/fleet/zoekt/query.h"

namespace warren::bench {
namespace {

using asio::ip::tcp;

// In the form of zoekt's types. Most of these fields are ignored.
constexpr std::string_view answer_of_one = R"({"Result":{"ContentBytesLoaded":5126,
"IndexBytesLoaded":262,"Crashes":0,"Duration":412708,"FileCount":2,"ShardFilesConsidered":9,
"FilesConsidered":3,"FilesLoaded":2,"FilesSkipped":0,"ShardsScanned":1,"ShardsSkipped":0,
"ShardsSkippedFilter":0,"MatchCount":7,"NgramMatches":8,"NgramLookups":11,"Wait":5209,
"MatchTreeConstruction":30100,"MatchTreeSearch":301000,"RegexpsConsidered":0,"FlushReason":0,
"Priority":0,"MaxPendingPriority":0,"Files":[{"FileName":"kernel/a.c","Repository":"linux",
"Language":"C","Branches":["HEAD"],"Score":10.5,"ChunkMatches":[{"Content":"aW50IG1haW47Cg==",
"ContentStart":{"ByteOffset":0,"LineNumber":1,"Column":1},"FileName":false,"Ranges":[{"Start":
{"ByteOffset":4,"LineNumber":1,"Column":5},"End":{"ByteOffset":8,"LineNumber":1,"Column":9}}],
"SymbolInfo":null,"Score":501}],"Checksum":"AQIDBAUGBwg="}],"RepoURLs":{"linux":""},
"LineFragments":{"linux":""}}}
)";

// Listens, and sends the same bytes in answer to every question.
class Listener {
 public:
  explicit Listener(std::string bytes, int questions = 1)
      : bytes_(std::move(bytes)), thread_([this, questions] { serve(questions); }) {}
  std::string url() const {
    return fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port());
  }

 private:
  void serve(int questions) {
    boost::system::error_code error;
    tcp::socket socket(io_);
    acceptor_.accept(socket, error);
    std::string in;
    for (int i = 0; i < questions && !error; ++i) {
      auto head = asio::read_until(socket, asio::dynamic_buffer(in), "}}", error);
      in.erase(0, head);
      if (!error) asio::write(socket, asio::buffer(bytes_), error);
    }
    // Until the other side closes.
    char byte = 0;
    while (!error) socket.read_some(asio::buffer(&byte, 1), error);
  }

  std::string bytes_;
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, {asio::ip::address_v4::loopback(), 0}};
  std::jthread thread_;
};

std::string sized(std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}
std::string in_chunks(std::string_view body) {
  auto half = body.size() / 2;
  return fmt::format(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
      half, body.substr(0, half), body.size() - half, body.substr(half));
}

Result<PeerAnswer> ask(const Listener& listener, std::chrono::milliseconds longest = 10s) {
  auto client = PeerClient::make(listener.url(), longest, 1u << 16);
  REQUIRE(client);
  return client->ask("foo case:yes", PeerTerms::bounded);
}

TEST_CASE("what zoekt answers is read: files, matches, its own time") {
  auto answer = parse_peer_answer(answer_of_one);
  REQUIRE(answer);
  CHECK(answer->file_count == 2);
  CHECK(answer->match_count == 7);
  CHECK(answer->files_shown == 1);
  CHECK(answer->duration == std::chrono::nanoseconds(412708));
  auto none = parse_peer_answer(R"({"Result":{"Duration":9,"Files":null}})");
  REQUIRE(none);
  CHECK(none->file_count == 0);
  CHECK(none->files_shown == 0);
}

TEST_CASE("what is not zoekt's answer is refused") {
  for (std::string_view body :
       {"", "<html>", "[]", "{}", R"({"Result":null})", R"({"Result":{"FileCount":"2"}})",
        R"({"Result":{"MatchCount":-1}})", R"({"Result":{"Files":{}}})", R"({"Result":{}} more)"}) {
    CAPTURE(body);
    auto answer = parse_peer_answer(body);
    REQUIRE(!answer);
    CHECK(answer.error().code == Errc::protocol);
  }
  auto told = parse_peer_answer(R"({"Error":"missing query"})");
  REQUIRE(!told);
  CHECK(told.error().code == Errc::refused);
  CHECK(told.error().what == "missing query");
}

TEST_CASE("a question is what zoekt's server reads") {
  CHECK(peer_question(R"("a\b" case:yes)", PeerTerms::bounded) ==
        R"({"Q":"\"a\\b\" case:yes","Opts":{"MaxDocDisplayCount":50,"NumContextLines":2,)"
        R"("ChunkMatches":true}})");
  CHECK(peer_question("a", PeerTerms::all).contains(R"("ShardMaxMatchCount":1073741824)"));
}

TEST_CASE("an answer comes with its length or in chunks, on one connection") {
  for (const auto& bytes : {sized(answer_of_one), in_chunks(answer_of_one)}) {
    Listener listener(bytes, 3);
    auto client = PeerClient::make(listener.url());
    REQUIRE(client);
    for (int i = 0; i < 3; ++i) {
      auto answer = client->ask("foo case:yes", PeerTerms::bounded);
      REQUIRE(answer);
      CHECK(answer->match_count == 7);
    }
  }
}

TEST_CASE("a server that is silent, talks nonsense or too much ends with an error") {
  auto silent = ask(Listener(""), 50ms);
  REQUIRE(!silent);
  CHECK(silent.error().code == Errc::timeout);
  auto unfinished = ask(Listener("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"Res"), 50ms);
  REQUIRE(!unfinished);
  CHECK(unfinished.error().code == Errc::timeout);
  // Valid except for its size.
  std::string large = std::string(answer_of_one) + std::string(1u << 17, ' ');
  for (const auto& bytes :
       {sized("<html>"), std::string("+PONG\r\n\r\n"), sized(large), in_chunks(large)}) {
    auto answer = ask(Listener(bytes));
    REQUIRE(!answer);
    CHECK(answer.error().code == Errc::protocol);
  }
}

TEST_CASE("a server that is not there is unavailable, and a wrong address is invalid") {
  asio::io_context io;
  tcp::acceptor closed(io, {asio::ip::address_v4::loopback(), 0});
  auto url = fmt::format("http://127.0.0.1:{}", closed.local_endpoint().port());
  closed.close();
  auto client = PeerClient::make(url);
  REQUIRE(client);
  auto answer = client->ask("foo", PeerTerms::bounded);
  REQUIRE(!answer);
  CHECK(answer.error().code == Errc::unavailable);
  CHECK(PeerClient::make("ftp://x").error().code == Errc::invalid);
}

TEST_CASE("every query that a server of zoekt is asked means to it what it means to us") {
  for (const char* package : {"linux", "postgresql-15"}) {
    int count = 0;
    for (const auto& one : query_classes({package, "/nowhere", "/nowhere.git"}, {})) {
      if (one.is_refused) continue;
      CAPTURE(one.name);
      auto zoekt = fleet::parse_zoekt_query(one.for_peer());
      REQUIRE(zoekt);
      auto theirs = search::parse_query(zoekt->text);
      auto ours = search::parse_query(one.query);
      REQUIRE_MESSAGE(theirs, (theirs ? "" : theirs.error().what));
      REQUIRE(ours);
      // As one group, a regular expression keeps its meaning. Closing characters are left out on
      // both sides.
      auto text = [](const search::ParsedQuery& query) {
        auto shown = search::to_string(*query.root);
        for (std::string_view mark : {"/(?:", ")/"})
          for (auto at = shown.find(mark); at != shown.npos; at = shown.find(mark))
            shown.replace(at, mark.size(), "/");
        return shown;
      };
      CHECK(text(*ours) == text(*theirs));
      ++count;
    }
    CHECK(count > 20);
  }
  CHECK(zoekt_literal("i++") == R"(i\+\+)");
  CHECK(zoekt_literal("static_int x") == R"(static_int\ x)");
}

TEST_CASE("a query that the server refuses is one of many, and not the end of all") {
  Listener refuses(sized(R"({"Error":"error parsing regexp"})"), 2);
  auto client = PeerClient::make(refuses.url(), 10s, 1u << 16);
  REQUIRE(client);
  auto refused = refused_by(*client, {"i++", "foo("});
  REQUIRE(refused);
  CHECK(refused->size() == 2);
  CHECK(refused->at(1) == "error parsing regexp");
  Listener answers(sized(answer_of_one), 2);
  auto other = PeerClient::make(answers.url(), 10s, 1u << 16);
  REQUIRE(other);
  auto none = refused_by(*other, {"foo", "bar"});
  REQUIRE(none);
  CHECK(none->empty());
  Listener broken(sized("no JSON"));
  auto third = PeerClient::make(broken.url(), 10s, 1u << 16);
  REQUIRE(third);
  CHECK(refused_by(*third, {"foo"}).error().code == Errc::protocol);
}

TEST_CASE("words of bench_search are names of packages, and flags are not") {
  using Words = std::vector<std::string>;
  CHECK(read_search_words({}, "")->corpora == Words{"postgresql-15", "linux"});
  CHECK(read_search_words({}, "git")->corpora == Words{"git"});
  CHECK(read_search_words({"linux", "git"}, "zlib")->corpora == Words{"linux", "git"});
  auto beside = read_search_words({"--peer-url", "http://h"}, "");
  CHECK(beside->peer_url == "http://h");
  CHECK(beside->corpora == Words{"linux"});
  CHECK(read_search_words({"git", "--peer-url", "http://h"}, "")->corpora == Words{"git"});
  CHECK(read_search_words({"--help"}, "")->wants_help);
  CHECK(read_search_words({"linux", "-h"}, "")->wants_help);
  CHECK(search_usage.contains("--peer-url"));
  for (const Words& words : {Words{"--peer-url"}, Words{"--verbose"}, Words{"-x", "linux"},
                             Words{"../linux"}, Words{"Linux"}, Words{""}, Words{"a b"}}) {
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    auto wrong = read_search_words(words, "");
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == Errc::invalid);
  }
}

}  // namespace
}  // namespace warren::bench
