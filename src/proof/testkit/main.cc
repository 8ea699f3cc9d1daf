// The main function of every test program, and how the kit fails a doctest test case.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>

#include "proof/testkit/failure.h"

namespace {

std::atomic<bool> has_failed = false;

// doctest tells only its listeners whether the running test case has failed.
struct FailureListener : doctest::IReporter {
  explicit FailureListener(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData&) override { has_failed = false; }
  void log_assert(const doctest::AssertData& assertion) override {
    if (assertion.m_failed && !(assertion.m_at & doctest::assertType::is_warn)) has_failed = true;
  }
  void log_message(const doctest::MessageData& message) override {
    if (!(message.m_severity & doctest::assertType::is_warn)) has_failed = true;
  }
  void test_case_exception(const doctest::TestCaseException&) override { has_failed = true; }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("testkit", 1, FailureListener);

[[maybe_unused]] const bool hooks_are_set = [] {
  warren::failure_hooks.on_failure = [](const std::string& what) {
    if (doctest::is_running_in_test) FAIL(what);
  };
  warren::failure_hooks.has_failed = [] { return has_failed.load(); };
  return true;
}();

}  // namespace
