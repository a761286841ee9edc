def test_all_classes_in_the_order_they_were_learnt(client):
    response = client.get("/v1/classes")

    body = response.json()
    assert [entry["id"] for entry in body["data"]] == [f"digit-{i}" for i in range(5)]
    assert [entry["hops"] for entry in body["data"]] == [1, 1, 1, 0, 0]
    assert body["next_cursor"] is None
    assert response.headers["X-Model-Version"] == "2"


def test_pages_put_together_are_the_whole_list(client):
    found, cursor = [], None
    while True:
        body = client.get("/v1/classes", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        found += [entry["id"] for entry in body["data"]]
        cursor = body["next_cursor"]
        if cursor is None:
            break

    assert found == [f"digit-{i}" for i in range(5)]


def test_a_cursor_that_is_none_of_ours_is_refused(client):
    response = client.get("/v1/classes", params={"cursor": "-1"})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert response.json()["errors"][0]["pointer"] == "/query/cursor"


def test_one_class(client):
    assert client.get("/v1/classes/digit-1").json() == {"id": "digit-1", "name": "digit-1", "images": 6, "hops": 1}


def test_a_class_that_is_not_known(client):
    response = client.get("/v1/classes/zebra")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_class")
