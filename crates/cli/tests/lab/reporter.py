"""What reports use from inside a Pod: once a second, for as long as a desk outside says so.

The desk is told how the last report was answered, and in which network it was sent. `WAY` says what
is reported: `own` with the token that this Pod got, `guessed` with another, `foreign` for another
instance, which `INSTEAD` names.
"""

import os
import time
import urllib.error
import urllib.request

URL = os.environ["SOJOURN_REPORT_URL"]
TOKEN = os.environ["SOJOURN_REPORT_TOKEN"]
WAY = os.environ["WAY"]


def ask(request):
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def report():
    url, token = URL, TOKEN
    if WAY == "guessed":
        token = TOKEN[::-1]
    if WAY == "foreign":
        url = os.environ["INSTEAD"].join(URL.rsplit(os.environ["NAME"], 2))
    headers = {"Authorization": "Bearer " + token}
    return ask(urllib.request.Request(url, data=b"{}", headers=headers, method="POST"))


network = os.readlink("/proc/self/ns/net")
told = "nothing"
while True:
    goes_on = ask(os.environ["DESK"] + "?" + WAY + "=" + str(told) + "&network=" + network) == 200
    told = report() if goes_on else "nothing"
    time.sleep(1)
